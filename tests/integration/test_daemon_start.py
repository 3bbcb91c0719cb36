"""What `sealcar init` makes, and what `sealcar serve` refuses, each with its text."""

from __future__ import annotations

import os
import re
import stat
import subprocess
from typing import TYPE_CHECKING

import pytest
from support.daemon import Daemon, environment, run_command

from sealcar_server import settings

if TYPE_CHECKING:
    from pathlib import Path


def refused(daemon: Daemon, *flags: str, **variables: str) -> str:
    """Start a daemon that must not start, and return what it says; its exit code is 2."""
    done = subprocess.run(
        [*daemon.command(), *flags],
        env=environment(variables),
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 2, done.stderr
    assert done.stderr.startswith("sealcar: ")
    assert "Traceback" not in done.stderr
    assert len(done.stderr.splitlines()) == 1
    return done.stderr


@pytest.fixture
def made(tmp_path: Path) -> Daemon:
    return Daemon(tmp_path)


def test_init_makes_everything_for_its_owner_alone(made: Daemon) -> None:
    assert {path.name for path in made.folder.iterdir()} == {
        "kek",
        "policy.toml",
        "run",
        "sealcar.toml",
        "state",
        "store",
    }
    for path in (made.folder, *made.folder.rglob("*")):
        assert not stat.S_IMODE(path.stat().st_mode) & 0o077, path


def test_a_store_of_a_newer_release_is_refused_and_left_as_it_is(made: Daemon) -> None:
    identity = made.store / "store.json"
    identity.write_text(identity.read_text().replace('"format": "1"', '"format": "2", "more": 1'))
    before = {path: path.stat().st_mtime_ns for path in made.store.rglob("*")}
    done = subprocess.run(
        made.command(), env=environment(), capture_output=True, text=True, timeout=60, check=False
    )
    assert done.returncode == 6, done.stderr
    assert "format '2'" in done.stderr
    assert "update the daemon" in done.stderr
    assert {path: path.stat().st_mtime_ns for path in made.store.rglob("*")} == before


def test_init_says_that_there_is_no_isolation_and_what_to_do_next(tmp_path: Path) -> None:
    done = run_command("init", str(tmp_path / "d"))
    assert done.returncode == 0
    assert 'isolation = "none"' in done.stdout
    assert "production" in done.stdout
    assert f"sealcar serve --config {tmp_path}/d/sealcar.toml" in done.stdout
    assert f"export SEALCAR_SOCKET={tmp_path}/d/run/default" in done.stdout
    assert 'isolation = "none"' in (tmp_path / "d" / "sealcar.toml").read_text()


def test_init_without_a_directory_uses_the_users_data_directory(tmp_path: Path) -> None:
    done = run_command("init", XDG_DATA_HOME=str(tmp_path))
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "sealcar" / "sealcar.toml").exists()


def test_init_never_overwrites(made: Daemon) -> None:
    before = {path: path.read_bytes() for path in made.folder.rglob("*") if path.is_file()}
    again = run_command("init", str(made.folder))
    assert again.returncode == 1
    assert "exists; nothing was changed" in again.stderr
    assert before == {path: path.read_bytes() for path in made.folder.rglob("*") if path.is_file()}


def test_init_refuses_a_directory_too_deep_for_sockets(tmp_path: Path) -> None:
    deep = tmp_path / ("d" * 100)
    done = run_command("init", str(deep))
    assert done.returncode == 2
    assert "has at most 107 bytes" in done.stderr
    assert not deep.exists()


def test_help_names_every_setting() -> None:
    said = run_command("serve", "--help").stdout
    for section in settings.SECTIONS:
        for key in settings.keys_of(section):
            assert f"{section}.{key} " in said
    for label in ("listen.NAME.dir", "keys.ALIAS.uri"):
        assert f"*{label}" in said


def test_settings_that_are_not_there(tmp_path: Path) -> None:
    done = run_command("serve", "--config", str(tmp_path / "none.toml"))
    assert done.returncode == 2
    assert "none.toml: can't read the settings: No such file or directory" in done.stderr
    assert "`sealcar init`" in done.stderr


@pytest.mark.parametrize(
    ("flag", "message"),
    [
        ("daemon.isolation=maybe", "--set daemon.isolation must be one of: uid, none"),
        ("daemon.workers=-1", "--set daemon.workers must be a whole number from 0 to 256"),
        ("log.level=loud", "--set log.level must be one of: debug, info, warning, error"),
        ("lgo.level=info", "section 'lgo' is unknown; did you mean 'log'?"),
        ("store.path=/nowhere", "[store] path /nowhere: /nowhere: No such file or directory"),
        ("policy.file=/nowhere", "[policy] file /nowhere: /nowhere: No such file or directory"),
        ("keys.default.uri=file:/nowhere", "[keys.default] uri /nowhere: /nowhere: No such file"),
        ("keys.default.uri=/nowhere", '--set keys.default.uri must be "file:PATH"'),
        ("metrics.address=here", '--set metrics.address must be "HOST:PORT"'),
        ("metrics.address=203.0.113.1:9464", "can't listen on 203.0.113.1:9464"),
    ],
)
def test_a_wrong_flag_is_named(made: Daemon, flag: str, message: str) -> None:
    assert message in refused(made, f"--set={flag}")


def test_a_wrong_line_of_the_file_is_named(made: Daemon) -> None:
    text = made.config.read_text()
    made.config.write_text(text.replace('isolation = "none"', 'isolation = "some"'))
    said = refused(made)
    assert f"{made.config}: [daemon] isolation must be one of: uid, none: 'some' is" in said


def test_a_wrong_variable_is_named(made: Daemon) -> None:
    said = refused(made, SEALCARD_TRANSFER_MEMORY_LIMIT="1KiB")
    assert "environment: SEALCARD_TRANSFER_MEMORY_LIMIT must be bytes, or text such as" in said


def test_a_socket_path_that_is_too_long_is_named_with_its_length(made: Daemon) -> None:
    said = refused(made, f"--set=listen.default.dir={made.folder}/{'d' * 100}")
    found = re.search(r"at most 107 bytes, this one has (\d+); choose a shorter directory", said)
    assert found
    assert int(found[1]) == len(f"{made.folder}/{'d' * 100}/grpc.sock")


@pytest.mark.parametrize(
    ("what", "message"),
    [
        ("kek", "[keys.default] uri"),
        ("policy.toml", "[policy] file"),
        ("store", "[store] path"),
        ("state", "directory"),
        ("run/default", "directory"),
        (".", "others than its owner can write"),
    ],
)
def test_what_others_can_write_is_not_trusted(made: Daemon, what: str, message: str) -> None:
    (made.folder / what).chmod(0o722)
    said = refused(made)
    assert message in said
    assert "others than its owner can write" in said
    assert "chmod go-w it" in said


def test_a_key_that_others_can_read_is_not_used(made: Daemon) -> None:
    (made.folder / "kek").chmod(0o640)
    assert "kek" in refused(made)


def test_a_wrong_policy_is_named_with_its_place(made: Daemon) -> None:
    made.policy.write_text('[[grant]]\nuid = 1\npackages = ["*"]\nrights = ["raed"]\n')
    said = refused(made)
    assert f"{made.policy}: grant 1: rights: 'raed' is no right; allowed: list, read" in said


def test_with_isolation_by_uid_a_grant_for_the_daemons_own_uid_is_refused(made: Daemon) -> None:
    said = refused(made, "--set=daemon.isolation=uid")
    assert f"a grant names uid {os.getuid()}, the daemon's own" in said
    assert 'or set "none"' in said


def test_another_key_than_the_stores_is_refused_at_the_start(made: Daemon, tmp_path: Path) -> None:
    other = tmp_path / "o"
    assert run_command("init", str(other)).returncode == 0
    done = subprocess.run(
        [*made.command(), f"--set=keys.default.uri=file:{other}/kek"],
        env=environment(),
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 7, done.stderr
    assert "doesn't belong" in done.stderr


def test_no_isolation_is_said_at_the_start(made: Daemon) -> None:
    with made:
        warnings = [line for line in made.log if line.get("level") == "warning"]
    assert len(warnings) == 1
    assert "isolation" in warnings[0]["event"]
