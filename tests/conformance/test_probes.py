"""Probes and service managers: they ask often, say little, and act on the answer."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import threading
import time
from typing import TYPE_CHECKING

import pytest
from support.daemon import Daemon, environment, run_command

from sealcar.admin import Admin
from sealcar.v1 import data_socket_pb2 as pb
from sealcar_server.health import Health
from sealcar_server.notify import Notifier

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

WITHOUT = """
import sys
from sealcar.cli.main import run
code = run(sys.argv[1:])
loaded = {name.partition(".")[0] for name in sys.modules}
print(sorted(loaded & {"grpc", "google", "rich", "onnxruntime", "numpy", "sealcar_server"}))
sys.exit(code)
"""


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Daemon]:
    with Daemon(tmp_path_factory.mktemp("d")) as daemon:
        yield daemon


def probe(directory: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    command = ("status", *arguments, "--timeout", "2", "--socket", str(directory))
    return subprocess.run(
        [sys.executable, "-c", WITHOUT, *command],
        env=environment(),
        capture_output=True,
        text=True,
        check=False,
    )


def test_a_probe_loads_neither_grpc_nor_protobuf_and_prints_nothing(shared: Daemon) -> None:
    for kind in ("--probe", "--probe=live", "--probe=ready"):
        done = probe(shared.socket, kind)
        assert (done.returncode, done.stdout, done.stderr) == (0, "[]\n", "")


def test_a_probe_of_nobody_fails_with_4_and_says_why(tmp_path: Path) -> None:
    done = run_command("status", "--probe", "--timeout", "0.1", "--socket", str(tmp_path))
    assert done.returncode == 4
    assert "no daemon at" in done.stderr


def test_a_locked_daemon_is_live_but_not_ready(shared: Daemon) -> None:
    with Admin.at(shared.admin) as admin:
        admin.lock()
        try:
            assert probe(shared.socket, "--probe").returncode == 0
            assert probe(shared.socket, "--probe=ready").returncode == 7
        finally:
            admin.unlock()


@pytest.mark.parametrize(
    "answer",
    [
        b"",
        b"\xff" * 40,
        pb.DaemonPacket(state=pb.StateResponse(serving=True)).SerializeToString(),
        pb.DaemonPacket(attested=pb.Attested(protocol=1)).SerializeToString(),
    ],
    ids=["nothing", "noise", "out of turn", "not serving"],
)
def test_a_probe_believes_nothing_but_the_answer(answer: bytes, tmp_path: Path) -> None:
    with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as listener:
        listener.bind(str(tmp_path / "data.sock"))
        listener.listen()
        asking = subprocess.Popen(
            [sys.executable, "-m", "sealcar.cli.main", "status", "--probe", "--timeout", "5"],
            env=environment({"SEALCAR_SOCKET": str(tmp_path)}),
            stderr=subprocess.PIPE,
        )
        connection, _ = listener.accept()
        with connection, asking:
            while connection.recv(100):
                if not answer:
                    break
                connection.send(answer)
                answer = pb.DaemonPacket(state=pb.StateResponse()).SerializeToString()
            connection.close()
            assert asking.wait(30) == 4


class Manager:
    """A service manager's socket, and what it was told."""

    def __init__(self, path: Path) -> None:
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self._socket.bind(str(path))
        self._socket.settimeout(30)

    def told(self) -> dict[str, str]:
        """Return the next message."""
        lines = self._socket.recv(4096).decode().split("\n")
        return dict(line.split("=", 1) for line in lines)

    def until(self, name: str) -> dict[str, str]:
        """Return the first message from here on that has such a line, as a whole."""
        while name not in (told := self.told()):
            pass
        return told

    def close(self) -> None:
        self._socket.close()


@pytest.fixture
def manager(tmp_path: Path) -> Iterator[Manager]:
    one = Manager(tmp_path / "notify")
    yield one
    one.close()


def test_a_service_manager_hears_ready_reload_watchdog_and_stop(
    tmp_path: Path, manager: Manager, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("NOTIFY_SOCKET", str(tmp_path / "notify"))
    monkeypatch.setenv("WATCHDOG_USEC", "400000")
    with Daemon(tmp_path) as daemon:
        assert manager.until("STATUS")["STATUS"].startswith("serving 0 connections")
        assert manager.until("READY") == {"READY": "1"}
        assert manager.until("WATCHDOG") == {"WATCHDOG": "1"}
        assert daemon.process
        before = time.monotonic_ns() // 1000
        daemon.process.send_signal(signal.SIGHUP)
        told = manager.until("RELOADING")
        assert before <= int(told["MONOTONIC_USEC"]) <= time.monotonic_ns() // 1000
        # the new policy is in force by then
        assert manager.until("READY") == {"READY": "1"}
        assert daemon.metric("sealcar_policy_generation") == 2
        assert "WATCHDOG" in told_under_reloads(daemon, manager)
        daemon.process.send_signal(signal.SIGTERM)
        assert manager.until("STOPPING") == {"STOPPING": "1"}
        assert daemon.process.wait(30) == 0


def told_under_reloads(daemon: Daemon, manager: Manager) -> set[str]:
    """Return what a manager is told while reload follows reload, longer than a watchdog waits."""
    found: set[str] = set()
    until = time.monotonic() + 0.6
    while time.monotonic() < until:
        os.kill(daemon.pid, signal.SIGHUP)
        while "READY" not in (told := manager.told()):
            found |= set(told)
        time.sleep(0.05)
    return found


def test_a_watchdog_is_told_twice_in_its_time_and_only_by_whom_it_watches(
    tmp_path: Path, manager: Manager
) -> None:
    asked = {"NOTIFY_SOCKET": str(tmp_path / "notify"), "WATCHDOG_USEC": "3000000"}
    with Notifier(asked) as notifier:
        assert notifier.interval == 1.5
        notifier.beat()
        notifier.beat()
        notifier.ready()
    assert manager.until("WATCHDOG") == {"WATCHDOG": "1"}
    assert manager.until("READY") == {"READY": "1"}
    with Notifier({**asked, "WATCHDOG_PID": "1"}) as notifier:
        assert notifier.interval == 0


def test_what_a_manager_waits_for_is_told_as_soon_as_it_reads_what_came_before(
    tmp_path: Path, manager: Manager
) -> None:
    with Notifier({"NOTIFY_SOCKET": str(tmp_path / "notify")}) as notifier:
        for number in range(2000):  # more than are queued; what doesn't fit is dropped
            notifier.status(str(number))
        reading = threading.Timer(0.1, manager.until, ("READY",))
        reading.start()
        notifier.reloading()
        notifier.ready()
        reading.join(2)
        assert not reading.is_alive()


def test_without_a_manager_and_with_one_that_is_gone_nothing_happens(tmp_path: Path) -> None:
    for environ in ({}, {"NOTIFY_SOCKET": "vsock:1:2"}, {"NOTIFY_SOCKET": str(tmp_path / "no")}):
        with Notifier(environ) as notifier:
            notifier.ready()
            notifier.stopping()


def test_an_abstract_socket_is_one_too() -> None:
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as manager:
        manager.bind("")  # the kernel chooses an abstract name
        name = manager.getsockname()
        with Notifier({"NOTIFY_SOCKET": "@" + name[1:].decode()}) as notifier:
            notifier.ready()
        assert manager.recv(100) == b"READY=1"


def test_a_main_thread_that_hangs_is_not_live() -> None:
    health = Health(lambda: True, lambda: False, silence=0.05)
    assert health.live
    time.sleep(0.06)
    assert not health.live
    assert not health.ready
    health.beat()
    assert health.ready
    health.draining = True
    assert (health.live, health.ready) == (True, False)
    assert not Health(lambda: False, lambda: False).live
