"""`sealcar doctor` beside a real daemon, and where there is none."""

from __future__ import annotations

import json
import os
from typing import TYPE_CHECKING, Any

import pytest
from support.daemon import Daemon, run_command

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Daemon]:
    with Daemon(tmp_path_factory.mktemp("doctor")) as daemon:
        yield daemon


def examined(*arguments: str, **extra: str) -> tuple[int, str, dict[str, dict[str, Any]]]:
    done = run_command("doctor", "--timeout", "1", "--json", *arguments, **extra)
    assert done.stderr == ""
    value = json.loads(done.stdout)
    found = {each["check"]: each for each in value["findings"]}
    assert len(found) == len(value["findings"])
    return done.returncode, value["state"], found


def of_daemon(found: dict[str, dict[str, Any]]) -> set[str]:
    ours = ("sockets", "daemon", "release", "isolation", "session", "store", "unchanged")
    more = ("policy", "audit", "admin")
    return {
        name
        for name, each in found.items()
        if each["state"] == "problem" and (name in ours + more or name.startswith("hardening"))
    }


def test_a_daemon_that_serves_is_looked_at_from_all_sides(shared: Daemon) -> None:
    before = sorted(shared.store.iterdir())
    code, state, found = examined(
        *("--socket", str(shared.socket)),
        *("--admin", str(shared.admin)),
        *("--store", str(shared.store)),
    )
    assert of_daemon(found) == set()
    # this machine may swap: that is a problem of it and not of the daemon
    assert code == (1 if state == "problem" else 0)
    assert (found["daemon"]["state"], found["release"]["state"]) == ("ok", "ok")
    assert (found["isolation"]["state"], found["unchanged"]["state"]) == ("weaker", "ok")
    assert f"uid {os.getuid()}" in found["sockets"]["text"]
    assert {"hardening: landlock", "hardening: seccomp", "policy", "audit"} <= found.keys()
    assert sorted(shared.store.iterdir()) == before


def test_the_machine_is_told_to_know_a_process_as_surely_as_its_daemon_does(
    shared: Daemon,
) -> None:
    _, _, found = examined("--socket", str(shared.socket))
    with shared.connect() as client:
        assert f"({client.state().session})" in found["identity"]["text"]
        assert f"({client.state().session})" in found["session"]["text"]


def test_a_person_gets_lines_and_their_sum(shared: Daemon) -> None:
    done = run_command("doctor", SEALCAR_SOCKET=str(shared.socket))
    *lines, last = done.stdout.splitlines()
    assert any(line.split()[:2] == ["ok", "daemon"] for line in lines)
    assert any(line.split()[:1] == ["remedy:"] for line in lines)
    assert last.endswith(" ok")


def test_a_daemon_that_was_named_and_isnt_there_is_a_problem(tmp_path: Path) -> None:
    code, state, found = examined("--socket", str(tmp_path / "none"))
    assert (code, state, of_daemon(found)) == (1, "problem", {"sockets"})
    code, _, found = examined(SEALCAR_SOCKET=str(tmp_path))
    assert (code, of_daemon(found)) == (1, {"daemon"})
    assert found["daemon"]["remedy"]


def test_without_any_daemon_the_machine_is_looked_at(tmp_path: Path) -> None:
    _, _, found = examined(XDG_RUNTIME_DIR=str(tmp_path))
    assert of_daemon(found) == set()
    assert found["sockets"]["state"] in {"unknown", "ok"}
    assert {"kernel", "swap", "aes", "runtime"} <= found.keys()


def test_a_directory_that_others_can_write_is_a_problem_and_nobody_there_is_asked(
    tmp_path: Path,
) -> None:
    tmp_path.chmod(0o777)
    code, _, found = examined("--socket", str(tmp_path))
    assert (code, of_daemon(found)) == (1, {"sockets"})
    assert "daemon" not in found


def test_a_directory_above_that_others_can_write_is_a_problem_too(tmp_path: Path) -> None:
    folder = tmp_path / "above" / "default"
    folder.mkdir(parents=True)
    folder.parent.chmod(0o777)
    code, _, found = examined("--socket", str(folder))
    assert (code, of_daemon(found)) == (1, {"sockets"})
    assert str(folder.parent) in found["sockets"]["text"]
    assert "daemon" not in found


def test_an_admin_socket_that_isnt_there_is_a_problem(shared: Daemon, tmp_path: Path) -> None:
    code, _, found = examined("--socket", str(shared.socket), "--admin", str(tmp_path))
    assert (code, of_daemon(found)) == (1, {"admin"})


def test_a_locked_daemon_is_weaker_and_the_remedy_unlocks_it(shared: Daemon) -> None:
    admin = ("--admin", str(shared.admin))
    assert run_command("lock", *admin).returncode == 0
    try:
        _, _, found = examined("--socket", str(shared.socket))
        assert found["daemon"]["state"] == "weaker"
        assert "`sealcar unlock`" in found["daemon"]["remedy"]
    finally:
        assert run_command("unlock", *admin).returncode == 0
