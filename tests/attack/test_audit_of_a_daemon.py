"""The audit log of a daemon: who did what, by which rule, before the answer goes out."""

from __future__ import annotations

import json
import os
import random
import signal
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import pytest
from support.caller import call_as
from support.daemon import Daemon, run_command
from support.onnx_bytes import TINY
from support.payload_packages import COMPONENT, PACKAGE, VARIANT, publish
from support.raw_clients import until

from sealcar.errors import StorageError

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    import sealcar

SECRET = b"the words of a payload, nowhere else"
STRANGER = 4401


@pytest.fixture
def daemon(tmp_path: Path) -> Iterator[Daemon]:
    with Daemon(tmp_path, reachable=True) as daemon:
        with daemon.connect(peer_uid=os.geteuid()) as client:
            publish(client, {"blob": SECRET})
        yield daemon


def entries(daemon: Daemon) -> list[dict[str, Any]]:
    files = sorted((daemon.folder / "state" / "audit").glob("*.jsonl"))
    return [json.loads(line) for file in files for line in file.read_bytes().splitlines()]


def check(daemon: Daemon, *options: str) -> tuple[int, str]:
    files = sorted((daemon.folder / "state" / "audit").glob("*.jsonl"))
    done = run_command(
        "audit", "verify", "--config", str(daemon.config), *options, *map(str, files)
    )
    return done.returncode, done.stdout + done.stderr


def test_who_read_what_by_which_rule_is_there_when_the_answer_is(daemon: Daemon) -> None:
    with daemon.connect(peer_uid=os.geteuid()) as client:
        assert client.scope(PACKAGE, COMPONENT, VARIANT).read("blob") == SECRET
        read = entries(daemon)[-1]
    assert read["event"] == "decision"
    assert read["uid"] == os.geteuid()
    assert (read["right"], read["package"], read["payload"]) == ("read", PACKAGE, "blob")
    assert (read["version"], read["generation"]) == ("1", 1)
    assert read["rule"] == "grant 1 of policy 1"
    assert read["outcome"] == "done"
    assert read["seconds"] > 0
    assert read["key"] == {"alias": "default", "version": "1"}


def test_imports_writes_and_uses_of_keys_are_there(daemon: Daemon) -> None:
    with (
        daemon.connect(peer_uid=os.geteuid()) as client,
        client.begin(PACKAGE, COMPONENT, "w") as transaction,
    ):
        transaction.write("model.onnx", TINY, "model")
        transaction.commit()
    found = entries(daemon)
    published = [one for one in found if one.get("step") == "publish"]
    assert [one["generation"] for one in published] == [1]
    committed = [one for one in found if one.get("step") == "commit"]
    assert [(one["right"], one["generation"]) for one in committed] == [("write", 2)]
    keys = [(one["operation"], one["outcome"]) for one in found if one["event"] == "key"]
    assert ("wrap", "done") in keys
    assert ("unwrap", "done") in keys
    wrapped = next(one for one in found if one.get("operation") == "wrap")
    assert (wrapped["uid"], wrapped["package"]) == (os.geteuid(), PACKAGE)


@pytest.mark.root
def test_refusals_are_there_and_a_hostile_name_stays_on_its_line(daemon: Daemon) -> None:
    name = 'x","event":"recovered"}\n{"forged":1}'
    before = len(entries(daemon))
    get = {"method": "PackageStore.Get"}
    call_as(
        STRANGER,
        daemon.socket,
        {**get, "request": {"package": {"name": PACKAGE}}},
        {**get, "request": {"package": {"name": name}}},
        {**get, "request": {"package": {"name": "y" * 60_000}}},
    )
    refused, hostile, long = entries(daemon)[before:]
    assert (refused["uid"], refused["package"]) == (STRANGER, PACKAGE)
    assert (refused["rule"], refused["outcome"]) == (None, "NotFoundError")
    assert hostile["package"] == name
    assert len(long["package"]) < 300
    assert check(daemon)[0] == 0


@pytest.mark.root
def test_whoever_is_not_let_in_at_all_is_there(tmp_path: Path) -> None:
    daemon = Daemon(tmp_path, reachable=True, settings={"daemon.isolation": "uid"})
    daemon.policy.write_text("")
    daemon.grant(STRANGER)
    with daemon:
        call_as(0, daemon.socket, {"method": "PackageStore.List", "request": {}})
        refused = [one for one in entries(daemon) if one["event"] == "refused"]
    assert (refused[0]["uid"], refused[0]["reason"]) == (0, "own-uid")
    assert (refused[0]["outcome"], refused[0]["count"]) == ("refused", 1)


def test_another_policy_and_what_operators_ask_are_there(daemon: Daemon) -> None:
    assert daemon.process
    daemon.process.send_signal(signal.SIGHUP)
    until(lambda: entries(daemon)[-1]["event"] == "policy")
    assert entries(daemon)[-1]["generation"] == 2
    done = run_command("status", "--admin", str(daemon.admin), SEALCAR_SOCKET=str(daemon.socket))
    assert done.returncode == 0, done.stderr
    operator = [one["method"] for one in entries(daemon) if one["event"] == "operator"]
    assert operator[-2:] == ["Keys.Status", "Admin.Status"]


def test_the_status_shows_a_last_line_that_the_verification_takes(daemon: Daemon) -> None:
    done = run_command(
        *("status", "--json", "--admin", str(daemon.admin)), SEALCAR_SOCKET=str(daemon.socket)
    )
    assert done.returncode == 0, done.stderr
    status = json.loads(done.stdout)
    assert status["policy"] == {"generation": 1, "broken": False}
    known = status["audit"]
    assert known["writable"]
    options = ("--sequence", str(known["sequence"]), "--mac", known["mac"])
    assert check(daemon, *options)[0] == 0
    forged = ("--sequence", str(known["sequence"]), "--mac", "0" * 64)
    assert check(daemon, *forged)[0] == 6


def test_the_log_is_for_the_daemon_only_and_holds_no_payload(daemon: Daemon) -> None:
    with daemon.connect(peer_uid=os.geteuid()) as client:
        client.scope(PACKAGE, COMPONENT, VARIANT).read("blob")
    folder = daemon.folder / "state" / "audit"
    assert folder.stat().st_mode & 0o777 == 0o700
    for file in folder.iterdir():
        assert file.stat().st_mode & 0o777 == 0o600
        assert SECRET not in file.read_bytes()


def test_the_last_line_is_a_metric_that_the_verification_takes(daemon: Daemon) -> None:
    def shown() -> dict[str, str]:
        return next(
            dict(labels) for name, labels in daemon.metrics() if name == "sealcar_audit_info"
        )

    until(lambda: int(shown()["sequence"]) == entries(daemon)[-1]["sequence"])
    known = shown()
    options = ("--sequence", known["sequence"], "--mac", known["mac"])
    assert check(daemon, *options)[0] == 0
    assert daemon.stop() == 0
    assert check(daemon, *options)[0] == 0
    (file,) = (daemon.folder / "state" / "audit").glob("*.jsonl")
    lines = file.read_bytes().splitlines(keepends=True)
    file.write_bytes(b"".join(lines[:-2]))
    code, text = check(daemon)
    assert code == 0
    assert "can't be seen this way" in text
    code, text = check(daemon, *options)
    assert code == 6
    assert "its end was cut off" in text
    file.write_bytes(b"".join([*lines[:2], *lines[3:]]))
    assert check(daemon)[0] == 6
    file.write_bytes(b"")
    assert check(daemon)[0] == 1


def test_a_daemon_killed_at_any_moment_leaves_a_log_that_verifies(tmp_path: Path) -> None:
    daemon = Daemon(tmp_path)
    answered = 0
    for run in range(3):
        daemon.start()
        with daemon.connect() as client:
            if not run:
                publish(client, {"blob": SECRET})
            scope = client.scope(PACKAGE, COMPONENT, VARIANT)
            for _ in range(random.randint(20, 200)):  # noqa: S311  (a test's)
                scope.read("blob")
                answered += 1
        daemon.kill()
    code, text = check(daemon)
    assert code == 0, text
    reads = [one for one in entries(daemon) if one.get("payload") == "blob"]
    assert len(reads) == answered


@pytest.mark.root
def test_a_daemon_that_can_not_write_its_log_serves_nothing_and_says_so(
    tmp_path: Path,
) -> None:
    with small_disk(tmp_path / "disk") as disk:
        settings = {"audit.dir": str(disk / "audit"), "audit.sync_interval": "0.1"}
        with Daemon(tmp_path, settings=settings) as daemon, daemon.connect() as client:
            publish(client, {"blob": SECRET})
            scope = client.scope(PACKAGE, COMPONENT, VARIANT)
            assert scope.read("blob") == SECRET
            filler = disk / "filler"
            fill(filler)
            refusals = [refusal(scope, "blob") for _ in range(200)]
            assert any("audit log can't be written" in refused for refused in refusals)
            until(lambda: daemon.metric("sealcar_audit_writable") == 0)
            assert [one for one in daemon.log if one["event"] == "the audit log can't be written"]
            filler.unlink()
            assert scope.read("blob") == SECRET
            until(lambda: daemon.metric("sealcar_audit_writable") == 1)


def refusal(scope: sealcar.Scope, name: str) -> str:
    try:
        scope.read(name)
    except StorageError as error:
        return str(error)
    return ""


@contextmanager
def small_disk(path: Path) -> Iterator[Path]:
    path.mkdir()
    assert os.system(f"mount -t tmpfs -o size=256k,mode=700 tmpfs {path}") == 0  # noqa: S605  (our own path)
    try:
        yield path
    finally:
        assert os.system(f"umount -l {path}") == 0  # noqa: S605  (our own path)


def fill(path: Path) -> None:
    with path.open("wb", buffering=0) as file:
        try:
            while True:
                file.write(bytes(4096))
        except OSError:
            return
