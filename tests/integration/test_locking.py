"""A daemon that is locked has no key, ends what is under way, and says who holds plaintext."""

from __future__ import annotations

import os
import threading
import time
from typing import TYPE_CHECKING, Any

import grpc
import pytest
from grpc_health.v1 import (  # type: ignore[import-untyped]  # publishes no types
    health_pb2,
    health_pb2_grpc,
)
from support.daemon import Daemon, answer, run_command
from support.onnx_bytes import TINY, model_around
from support.payload_packages import (
    COMPONENT,
    PACKAGE,
    VARIANT,
    PlannedBytes,
    PlannedPackage,
    varied,
)

from sealcar.admin import Admin
from sealcar.errors import LockedError, SealcarError

if TYPE_CHECKING:
    import subprocess
    from collections.abc import Iterator
    from pathlib import Path

    from sealcar.client import Client

SIZE = 64 << 20
SMALL = model_around(varied(5000))
BIG = varied(SIZE)


@pytest.fixture(scope="module")
def daemon(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Daemon]:
    with Daemon(tmp_path_factory.mktemp("locking")) as running:
        with running.connect() as client:
            payloads = (
                PlannedBytes("model.onnx", "model", SMALL),
                PlannedBytes("weights", "initializers", BIG),
            )
            client.catalogue.import_(PlannedPackage(payloads))
        yield running


@pytest.fixture
def client(daemon: Daemon) -> Iterator[Client]:
    with daemon.connect() as connected:
        yield connected
    command(daemon, "unlock")


def command(daemon: Daemon, *arguments: str, code: int = 0) -> dict[str, Any]:
    return answer(*arguments, "--admin", str(daemon.admin), code=code)


def read(client: Client, name: str = "model.onnx") -> bytes:
    return client.scope(PACKAGE, COMPONENT, VARIANT).read(name)


def test_a_locked_daemon_refuses_every_read_until_it_is_unlocked(
    daemon: Daemon, client: Client
) -> None:
    scope = client.scope(PACKAGE, COMPONENT, VARIANT)
    assert scope.read("model.onnx") == SMALL
    command(daemon, "lock")
    for attempt in (
        lambda: scope.read("model.onnx"),
        lambda: client.scope(PACKAGE, COMPONENT, VARIANT).payloads,
        lambda: client.catalogue.verify(PACKAGE),
        lambda: client.begin(PACKAGE, COMPONENT, "other"),
        lambda: client.catalogue.import_(
            PlannedPackage((PlannedBytes("model.onnx", "model", TINY),), name="more")
        ),
    ):
        with pytest.raises(LockedError) as caught:
            attempt()
        assert "sealcar unlock" in str(caught.value)
    command(daemon, "unlock")
    assert scope.read("model.onnx") == SMALL


def test_what_needs_no_key_is_answered_still(daemon: Daemon, client: Client) -> None:
    command(daemon, "lock")
    assert [each.name for each in client.catalogue.list()] == [PACKAGE]
    assert client.state().serving
    assert command(daemon, "keys", "report")["hanging"]
    status = command(daemon, "keys", "status")
    assert (status["locked"], status["keys"]) == (True, [])
    assert daemon.metric("sealcar_locked") == 1
    for words in (["keys", "rotate"], ["keys", "rewrap"]):
        assert command(daemon, *words, code=7)["error"]["kind"] == "LockedError"


def test_a_locked_daemon_says_that_it_lives_but_isnt_ready(daemon: Daemon, client: Client) -> None:
    def ready(service: str) -> bool:
        with grpc.insecure_channel(f"unix:{daemon.socket}/grpc.sock") as channel:
            request = health_pb2.HealthCheckRequest(service=service)
            answer = health_pb2_grpc.HealthStub(channel).Check(request)
        return bool(answer.status == health_pb2.HealthCheckResponse.SERVING)

    assert (ready(""), ready("sealcar.v1.Payloads"), client.state().locked) == (True, True, False)
    command(daemon, "lock")
    assert (ready(""), ready("sealcar.v1.Payloads"), client.state().locked) == (True, False, True)
    shown = run_command("status", "--socket", str(daemon.socket))
    assert (shown.returncode, "LOCKED" in shown.stdout) == (0, True)
    command(daemon, "unlock")
    assert (ready("sealcar.v1.Payloads"), client.state().locked) == (True, False)


def test_locking_twice_and_unlocking_twice_is_fine(daemon: Daemon, client: Client) -> None:
    for _ in range(2):
        command(daemon, "lock")
    for _ in range(2):
        command(daemon, "unlock")
    assert read(client) == SMALL
    assert daemon.metric("sealcar_locked") == 0


def test_transfers_under_way_end_with_the_reason(daemon: Daemon, client: Client) -> None:
    failures: list[SealcarError] = []
    stop = threading.Event()

    def keep_reading() -> None:
        with daemon.connect() as own:
            while not stop.is_set():
                try:
                    read(own, "weights")
                except SealcarError as error:
                    failures.append(error)
                    return

    threads = [threading.Thread(target=keep_reading) for _ in range(4)]
    for thread in threads:
        thread.start()
    time.sleep(1)
    command(daemon, "lock")
    assert client.state().transfers == 0
    stop.set()
    for thread in threads:
        thread.join()
    assert [type(error) for error in failures] == [LockedError] * 4


def test_a_client_that_takes_nothing_holds_up_no_lock(daemon: Daemon, client: Client) -> None:
    with client.scope(PACKAGE, COMPONENT, VARIANT).reader("weights"):
        begun = time.monotonic()
        command(daemon, "lock")
        assert time.monotonic() - begun < 15
    assert client.state().transfers == 0


def test_staging_is_gone_once_the_command_returns(daemon: Daemon, client: Client) -> None:
    staging = daemon.store / ".staging"
    with client.begin(PACKAGE, COMPONENT, "other") as transaction:
        transaction.write("model.onnx", TINY, "model")
        assert list(staging.iterdir())
        assert command(daemon, "lock")["aborted"] == 1
        assert not list(staging.iterdir())
        command(daemon, "unlock")
        with pytest.raises(SealcarError):
            transaction.commit()
    assert not (daemon.store / PACKAGE / "1" / "g" / "2").exists()


def test_the_answer_names_the_processes_that_hold_plaintext(daemon: Daemon, client: Client) -> None:
    with daemon.connect() as idle:
        assert idle.state().serving
        mapped = client.scope(PACKAGE, COMPONENT, VARIANT).map("weights")
        (holder,) = command(daemon, "lock")["holders"]
        assert (holder["pid"], holder["uid"]) == (os.getpid(), os.getuid())
        assert holder["listener"] == "default"
        # what is mapped stays with its process
        assert bytes(mapped.view) == BIG
        mapped.close()


def test_a_key_that_cant_be_had_keeps_the_daemon_locked(daemon: Daemon, client: Client) -> None:
    command(daemon, "lock")
    kek, aside = daemon.folder / "kek", daemon.folder / "aside"
    kek.rename(aside)
    try:
        assert command(daemon, "unlock", code=7)["error"]["kind"] == "KeyUnavailableError"
        assert command(daemon, "keys", "status")["locked"]
        with pytest.raises(LockedError):
            read(client)
    finally:
        aside.rename(kek)
    command(daemon, "unlock")
    assert read(client) == SMALL


def test_a_policy_that_changes_while_it_is_locked_is_read(daemon: Daemon, client: Client) -> None:
    command(daemon, "lock")
    daemon.grant(54321)
    deadline = time.monotonic() + 20
    while not any(line.get("event") == "policy reloaded" for line in daemon.log):
        assert time.monotonic() < deadline
        time.sleep(0.1)
    command(daemon, "unlock")
    assert read(client) == SMALL


def test_a_daemon_starts_locked_if_told_so(tmp_path: Path) -> None:
    daemon = Daemon(tmp_path)
    with daemon, daemon.connect() as client:
        client.catalogue.import_(PlannedPackage((PlannedBytes("model.onnx", "model", SMALL),)))
    daemon.process = None
    daemon.settings["daemon.start"] = "locked"
    # not even the key file is read
    kek = daemon.folder / "kek"
    content = kek.read_bytes()
    kek.write_bytes(b"nothing")
    with daemon, daemon.connect() as client:
        with pytest.raises(LockedError):
            read(client)
        command(daemon, "unlock", code=7)
        kek.write_bytes(content)
        command(daemon, "unlock")
        assert read(client) == SMALL


def test_a_lock_ends_a_rewrapping_which_goes_on_after(tmp_path: Path) -> None:
    with Daemon(tmp_path) as daemon:
        with daemon.connect() as client:
            for at in range(30):
                payload = PlannedBytes("model.onnx", "model", SMALL)
                client.catalogue.import_(PlannedPackage((payload,), name=f"p{at}"))
        command(daemon, "keys", "rotate")
        ended: list[subprocess.CompletedProcess[str]] = []
        moving = threading.Thread(
            target=lambda: ended.append(
                run_command("keys", "rewrap", "--admin", str(daemon.admin), "--json")
            )
        )
        moving.start()
        deadline = time.monotonic() + 30
        while not list(daemon.store.glob("*/1/g/2")) and time.monotonic() < deadline:
            time.sleep(0.001)
        with Admin(daemon.admin, peer_uid=os.getuid()) as admin:
            admin.lock()
            moved = len(list(daemon.store.glob("*/1/g/2")))
            moving.join(30)
            # not one more once the answer has come
            assert len(list(daemon.store.glob("*/1/g/2"))) == moved
            assert not list((daemon.store / ".staging").iterdir())
            assert ended[0].returncode in (0, 7)
            admin.unlock()
        done = command(daemon, "keys", "rewrap")
        assert (done["packages"] + done["skipped"], done["failed"]) == (30, 0)
