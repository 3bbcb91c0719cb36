from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from sealcar.errors import ConfigurationError, DeniedError
from sealcar_server.access.live_policy import LivePolicy
from sealcar_server.access.permit import Permit
from sealcar_server.access.policy import Policy, Right
from sealcar_server.access.principal import Principal

if TYPE_CHECKING:
    from pathlib import Path

ANNA = Principal("default", 1000, 100)
GRANT = '[[grant]]\nuid = 1000\npackages = ["ocr"]\nrights = ["read"]\n'


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "policy.toml"
    path.write_text(GRANT)
    path.chmod(0o600)
    return path


def live(file: Path) -> LivePolicy:
    return LivePolicy(file, lambda: Policy.load(file))


def test_a_file_that_is_still_being_written_is_not_read(file: Path) -> None:
    policy = live(file)
    for written in ("", GRANT[:9], GRANT + "# the rest"):
        file.write_text(written)
        policy.look()
        assert policy.allows(ANNA, Right.READ, "ocr"), "an unfinished file took the grant away"
    policy.look()
    assert policy.generation == 2
    assert policy.allows(ANNA, Right.READ, "ocr")


def test_a_file_that_has_not_changed_is_not_read_again(file: Path) -> None:
    policy = live(file)
    for _ in range(5):
        policy.look()
    assert policy.generation == 1


def test_a_policy_that_is_wrong_from_the_start_is_refused(file: Path) -> None:
    file.write_text("[[grant")
    with pytest.raises(ConfigurationError):
        live(file)


def test_whoever_follows_is_told_of_good_changes_only(file: Path) -> None:
    policy = live(file)
    told: list[int] = []
    policy.follow(lambda: told.append(policy.generation))
    file.write_text("[[grant")
    assert not policy.reload()
    assert policy.broken
    assert told == []
    file.write_text(GRANT)
    assert policy.reload()
    assert not policy.broken
    assert told == [2]


def test_the_rule_names_the_grant_and_the_generation(file: Path) -> None:
    policy = live(file)
    assert policy.require(ANNA, Right.READ, "ocr", "c") == "grant 1 of policy 1"
    policy.reload()
    assert policy.require(ANNA, Right.READ, "ocr", "c") == "grant 1 of policy 2"


def test_a_permit_stands_through_changes_that_leave_its_grant_and_falls_with_it(file: Path) -> None:
    policy = live(file)
    permit = Permit(policy, ANNA, Right.READ, "ocr", "c")
    file.write_text(f"# other words\n{GRANT}")
    policy.reload()
    permit.check()
    file.write_text("")
    policy.reload()
    with pytest.raises(DeniedError, match="taken away"):
        permit.check()
