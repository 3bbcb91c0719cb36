from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from sealcar.errors import ConfigurationError, DeniedError, NotFoundError
from sealcar_server.access.policy import Policy, Right, unknown_package
from sealcar_server.access.principal import Principal

if TYPE_CHECKING:
    from pathlib import Path

ANNA = Principal("default", 1000, 100)
BERT = Principal("default", 1001, 100)


def policy_of(tmp_path: Path, text: str) -> Policy:
    path = tmp_path / "policy.toml"
    path.write_text(text)
    path.chmod(0o600)
    return Policy.load(path)


@pytest.fixture
def policy(tmp_path: Path) -> Policy:
    return policy_of(
        tmp_path,
        """
        [[grant]]
        uid = 1000
        packages = ["ocr", "det-*"]
        rights = ["read", "write"]

        [[grant]]
        gid = 100
        packages = ["shared"]
        rights = ["list"]

        [[grant]]
        uid = 1001
        listener = "other"
        packages = ["*"]
        rights = ["import"]

        [[grant]]
        uid = 1001
        packages = ["parts"]
        components = ["det"]
        rights = ["read", "verify"]
        """,
    )


def test_an_empty_policy_allows_nothing(tmp_path: Path) -> None:
    empty = policy_of(tmp_path, "")
    assert not any(empty.allows(ANNA, right, "ocr") for right in Right)


def test_a_grant_is_for_its_uid_only(policy: Policy) -> None:
    assert policy.allows(ANNA, Right.WRITE, "ocr", "main")
    assert not policy.allows(BERT, Right.WRITE, "ocr", "main")


def test_a_grant_is_for_its_group(policy: Policy) -> None:
    assert policy.allows(ANNA, Right.LIST, "shared")
    assert policy.allows(BERT, Right.LIST, "shared")
    assert not policy.allows(Principal("default", 1000, 101), Right.LIST, "shared")


def test_a_grant_is_for_its_listener_only(policy: Policy) -> None:
    assert policy.allows(Principal("other", 1001, 100), Right.IMPORT, "anything")
    assert not policy.allows(BERT, Right.IMPORT, "anything")


def test_a_pattern_covers_what_it_matches_whole(policy: Policy) -> None:
    assert policy.allows(ANNA, Right.READ, "det-1", "main")
    assert not policy.allows(ANNA, Right.READ, "my-det-1", "main")
    assert not policy.allows(ANNA, Right.READ, "ocr2", "main")
    assert not policy.allows(ANNA, Right.READ, "OCR", "main")


def test_read_implies_list_and_write_does_not(policy: Policy, tmp_path: Path) -> None:
    assert policy.allows(ANNA, Right.LIST, "ocr")
    rule = '[[grant]]\nuid = 1\npackages = ["*"]\nrights = ["write"]'
    writer = policy_of(tmp_path, rule)
    assert not writer.allows(Principal("default", 1, 1), Right.LIST, "ocr")


def test_a_grant_for_a_component_does_not_cover_the_whole_package(policy: Policy) -> None:
    assert policy.allows(BERT, Right.READ, "parts", "det")
    assert not policy.allows(BERT, Right.READ, "parts", "rec")
    assert not policy.allows(BERT, Right.READ, "parts")
    assert not policy.allows(BERT, Right.VERIFY, "parts")


def test_whoever_may_read_a_component_may_see_its_package(policy: Policy) -> None:
    assert policy.allows(BERT, Right.LIST, "parts")
    assert policy.allows(BERT, Right.LIST, "parts", "det")
    assert not policy.allows(BERT, Right.LIST, "parts", "rec")


def test_a_lister_is_told_that_a_right_is_missing(policy: Policy) -> None:
    with pytest.raises(DeniedError, match=r"uid 1001.*'read'.*package shared, component 'main'"):
        policy.require(BERT, Right.READ, "shared", "main")


def test_a_stranger_can_not_tell_forbidden_from_unknown(policy: Policy) -> None:
    with pytest.raises(NotFoundError) as forbidden:
        policy.require(BERT, Right.READ, "ocr", "main")
    assert str(forbidden.value) == str(unknown_package("ocr"))


def test_refusals_are_told_by_kind_and_permissions_are_not(policy: Policy) -> None:
    kinds: list[str] = []
    watched = Policy(policy.grants, kinds.append)
    watched.require(ANNA, Right.READ, "ocr", "main")
    with pytest.raises(DeniedError):
        watched.require(BERT, Right.READ, "shared", "main")
    with pytest.raises(NotFoundError):
        watched.require(BERT, Right.READ, "ocr", "main")
    assert kinds == ["right", "unknown"]


def test_the_uids_that_grants_name_are_known(policy: Policy) -> None:
    assert policy.names_uid(1000)
    assert not policy.names_uid(100)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("[[grant", "not a TOML file"),
        ("[grants]", "unknown key 'grants'"),
        ("grant = 1", r"write \[\[grant\]\]"),
        ("grant = [1]", "grant 1: must be a table"),
        ('[[grant]]\npackages = ["a"]\nrights = ["read"]', "grant 1: names nobody"),
        ("[[grant]]\nuid = true", "grant 1: uid must be a number from 0 to 4294967294"),
        ("[[grant]]\nuid = -1", "uid must be a number"),
        ("[[grant]]\ngid = 4294967295", "gid must be a number"),
        ("[[grant]]\nuid = 1\nuser = 2", "unknown key 'user'; allowed: components, gid"),
        ("[[grant]]\nuid = 1\nlistener = 2", "listener must be the name"),
        ("[[grant]]\nuid = 1", "packages must be a list of names"),
        ("[[grant]]\nuid = 1\npackages = []", "packages must be a list of names"),
        ('[[grant]]\nuid = 1\npackages = ["a/b"]', "packages: 'a/b' is no name"),
        (
            '[[grant]]\nuid = 1\npackages = ["a"]\ncomponents = "b"\nrights = ["read"]',
            "components must be a list",
        ),
        ('[[grant]]\nuid = 1\npackages = ["a"]', "rights must be a list of: list, read, write"),
        (
            '[[grant]]\nuid = 1\npackages = ["a"]\nrights = ["read", "execute"]',
            "rights: 'execute' is no right; allowed: list, read, write, import, verify",
        ),
        ('[[grant]]\nuid = 1\npackages = ["a"]\nrights = [[]]', r"rights: \[\] is no right"),
    ],
)
def test_a_wrong_policy_is_named_with_its_place(tmp_path: Path, text: str, message: str) -> None:
    with pytest.raises(ConfigurationError, match=message) as error:
        policy_of(tmp_path, text)
    assert str(tmp_path / "policy.toml") in str(error.value)


@pytest.mark.parametrize("mode", [0o620, 0o602])
def test_a_policy_that_others_can_write_is_refused(tmp_path: Path, mode: int) -> None:
    path = tmp_path / "policy.toml"
    path.write_text("")
    path.chmod(mode)
    with pytest.raises(ConfigurationError, match="chmod go-w"):
        Policy.load(path)


def test_a_policy_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match=r"policy\.toml: can't read the policy"):
        Policy.load(tmp_path / "policy.toml")


def test_a_huge_policy_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match="over 1048576 bytes"):
        policy_of(tmp_path, "#" * (1 << 20) + "\n")
