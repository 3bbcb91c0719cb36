"""Clients and daemons that come, go, and fork."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import threading
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, suppress
from typing import TYPE_CHECKING

import pytest
from support.daemon import Daemon, environment
from support.onnx_bytes import TINY
from support.payload_packages import COMPONENT, PACKAGE, VARIANT, publish, varied
from support.raw_clients import memfds, until

import sealcar
from sealcar import errors

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

BIG = varied(30 << 20)

# reads in a child of fork, prints what came of it, and lets the parent read again
FORK = """
import os, sys, sealcar
client = sealcar.connect(sys.argv[1], timeout=20)
scope = client.scope("m", "c", "v")
expected = scope.read("big")
half_read = scope.reader("big")
if (child := os.fork()) == 0:
    buffer = bytearray(half_read.size)
    try:
        half_read.read_into(buffer)
    except sealcar.errors.WrongStateError as error:
        print("refused:", error, flush=True)
    half_read.close()
    print("child:", scope.read("big") == expected, client.state().sessions, flush=True)
    os._exit(0)
assert os.waitpid(child, 0)[1] == 0
buffer = bytearray(half_read.size)
half_read.read_into(buffer)
half_read.close()
print("parent:", buffer == expected, scope.read("big") == expected, flush=True)
client.close()
"""


@pytest.fixture
def published(daemon: Daemon) -> Daemon:
    with daemon.connect() as client:
        publish(client, {"big": BIG, "small": b"small"})
    return daemon


def test_a_child_of_fork_connects_anew_and_leaves_its_parents_transfer_alone(
    published: Daemon,
) -> None:
    done = subprocess.run(
        [sys.executable, "-c", FORK, str(published.socket)],
        env=environment(),
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )
    refused, child, parent = done.stdout.splitlines()
    assert "after fork" in refused
    assert child == "child: True 2", "a session of its own"
    assert parent == "parent: True True"


def test_a_daemon_that_comes_later_is_waited_for(tmp_path: Path) -> None:
    daemon = Daemon(tmp_path)
    found: list[sealcar.DaemonState] = []

    def connect() -> None:
        with daemon.connect(timeout=30) as client:
            found.append(client.state())

    thread = threading.Thread(target=connect)
    thread.start()
    time.sleep(0.3)
    with daemon:
        thread.join()
    assert found[0].serving


def test_without_a_daemon_the_error_comes_when_the_time_is_up(tmp_path: Path) -> None:
    started = time.monotonic()
    with pytest.raises(errors.UnavailableError, match="no daemon at"):
        sealcar.connect(tmp_path / "nowhere", timeout=0.3)
    assert time.monotonic() - started < 5


def test_whoever_listens_there_with_another_uid_gets_not_one_byte(tmp_path: Path) -> None:
    with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as squatter:
        squatter.bind(str(tmp_path / "data.sock"))
        squatter.listen()
        started = time.monotonic()
        with pytest.raises(errors.UnavailableError, match="must have uid 12345"):
            sealcar.connect(tmp_path, peer_uid=12345, timeout=20)
        assert time.monotonic() - started < 5, "waiting won't change who it is"
        victim, _ = squatter.accept()
        with victim:
            assert victim.recv(100) == b""


def test_a_daemon_that_falls_silent_is_given_up_in_time_and_asked_again_later(
    published: Daemon,
) -> None:
    with published.connect(timeout=1) as client:
        scope = client.scope(PACKAGE, COMPONENT, VARIANT)
        with scope.reader("big") as reader:
            os.kill(published.pid, signal.SIGSTOP)
            try:
                buffer = bytearray(b"\xee") * reader.size
                with pytest.raises(errors.TimedOutError):
                    reader.read_into(buffer)
                started = time.monotonic()
                with pytest.raises(errors.ResourceError):
                    scope.read("small")
                assert time.monotonic() - started < 10
            finally:
                os.kill(published.pid, signal.SIGCONT)
            assert not any(buffer)
        assert scope.read("big") == BIG
        until(lambda: client.state().transfers == 0)


def test_a_daemon_that_was_stopped_and_continued_serves_on(published: Daemon) -> None:
    """As every process is while its machine sleeps."""
    with published.connect() as client:
        for seconds in (0.1, 3):
            os.kill(published.pid, signal.SIGSTOP)
            time.sleep(seconds)
            os.kill(published.pid, signal.SIGCONT)
            time.sleep(0.5)
            assert client.state().serving


def test_a_daemon_killed_in_mid_read_ends_the_read_and_wipes_the_destination(
    tmp_path: Path,
) -> None:
    with Daemon(tmp_path) as daemon:
        client = daemon.connect(timeout=2)
        publish(client, {"big": BIG})
        with client.scope(PACKAGE, COMPONENT, VARIANT).reader("big") as reader:
            daemon.kill()
            buffer = bytearray(b"\xee") * reader.size
            with pytest.raises(errors.UnavailableError) as caught:
                reader.read_into(buffer)
        assert not any(buffer)
        assert caught.value.place.payload == "big"
        assert caught.value.place.phase == "transfer"
        daemon.start()
        assert client.scope(PACKAGE, COMPONENT, VARIANT).read("big") == BIG, "it came back"
        client.close()


def test_a_daemon_killed_in_mid_write_publishes_nothing(tmp_path: Path) -> None:
    with Daemon(tmp_path) as daemon:
        client = daemon.connect(timeout=2)
        publish(client, {"x": b"x"})
        with pytest.raises(errors.UnavailableError):  # noqa: PT012, SIM117  (abort fails as well)
            with client.begin(PACKAGE, COMPONENT, "w") as transaction:
                writer = transaction.writer("blob", "blob")
                writer.write(varied(3 << 20))
                daemon.kill()
                with pytest.raises(errors.UnavailableError):
                    writer.write(BIG)
        daemon.start()
        with pytest.raises(errors.NotFoundError):
            client.scope(PACKAGE, COMPONENT, "w").open()
        assert not any("w" in path.parts for path in daemon.store.rglob("*"))
        client.close()


def _run_until_moving(published: Daemon, program: str) -> subprocess.Popen[bytes]:
    process = subprocess.Popen(
        [sys.executable, "-c", program, str(published.socket)],
        env=environment(),
        stdout=subprocess.PIPE,
    )
    assert process.stdout
    assert process.stdout.readline() == b"moving\n"
    return process


READ = """
import sys, sealcar, time
client = sealcar.connect(sys.argv[1])
reader = client.scope("m", "c", "v").reader("big")
print("moving", flush=True)
time.sleep(60)
"""

WRITE = """
import sys, sealcar, time
client = sealcar.connect(sys.argv[1])
writer = client.begin("m", "c", "w").writer("blob", "blob")
writer.write(bytes(3 << 20))
print("moving", flush=True)
time.sleep(60)
"""


@pytest.mark.parametrize("program", [READ, WRITE])
def test_a_client_killed_in_mid_transfer_leaves_nothing_behind(
    published: Daemon, program: str
) -> None:
    with published.connect() as client:
        before = client.state()
        process = _run_until_moving(published, program)
        assert client.state().transfers == 1
        process.kill()
        process.wait()
        assert process.stdout
        process.stdout.close()
        until(lambda: client.state().transfers == 0 and client.state().sessions == 1)
        until(lambda: client.state().memory == before.memory)
        until(lambda: memfds(published.pid) == 0)
        assert not any("w" in path.parts for path in published.store.rglob("*"))
        assert client.scope(PACKAGE, COMPONENT, VARIANT).read("small") == b"small"


def test_a_stopping_daemon_lets_what_is_under_way_come_to_its_end(tmp_path: Path) -> None:
    with Daemon(tmp_path) as daemon:
        client = daemon.connect(timeout=5)
        publish(client, {"big": BIG, "small": b"s"})
        scope = client.scope(PACKAGE, COMPONENT, VARIANT)
        transaction = client.begin(PACKAGE, COMPONENT, "w")
        transaction.write("model.onnx", TINY, "model")
        with scope.reader("big") as reader:
            assert daemon.process
            daemon.process.send_signal(signal.SIGTERM)
            until(lambda: any(line.get("event") == "draining" for line in daemon.log))
            assert transaction.commit().generation == 2
            with daemon.connect() as other:
                assert not other.state().serving
                with pytest.raises(errors.UnavailableError, match="stopping"):
                    other.scope(PACKAGE, COMPONENT, VARIANT).read("small")
            buffer = bytearray(reader.size)
            reader.read_into(buffer)
            assert buffer == BIG
        assert daemon.process.wait(20) == 0
        client.close()
        daemon.start()


def test_a_client_that_stalls_in_mid_read_is_cut_when_the_drain_timeout_is_over(
    tmp_path: Path,
) -> None:
    settings = {"daemon.drain_timeout": "500ms"}
    with Daemon(tmp_path, settings=settings) as daemon, daemon.connect(timeout=5) as client:
        publish(client, {"big": BIG})
        with client.scope(PACKAGE, COMPONENT, VARIANT).reader("big") as stalled:
            started = time.monotonic()
            assert daemon.stop() == 0
            assert 0.5 <= time.monotonic() - started < 10
            buffer = bytearray(b"\xee") * stalled.size
            with pytest.raises(errors.UnavailableError):
                stalled.read_into(buffer)
        assert not any(buffer)


def test_a_second_sigterm_cuts_a_client_that_stalls_in_mid_read(tmp_path: Path) -> None:
    settings = {"daemon.drain_timeout": "10min"}
    with Daemon(tmp_path, settings=settings) as daemon, daemon.connect(timeout=5) as client:
        publish(client, {"big": BIG})
        with client.scope(PACKAGE, COMPONENT, VARIANT).reader("big"):
            assert daemon.process
            daemon.process.send_signal(signal.SIGTERM)
            until(lambda: any(line.get("event") == "draining" for line in daemon.log))
            assert daemon.stop(timeout=10) == 0


def test_clients_read_on_after_a_restart_or_fail_typed_within_their_deadline(
    tmp_path: Path,
) -> None:
    patience, over = 3.0, threading.Event()
    read, took = Counter[int](), list[float]()

    def read_on(number: int, client: sealcar.Client) -> None:
        scope = client.scope(PACKAGE, COMPONENT, VARIANT)
        while not over.is_set():
            started = time.monotonic()
            with suppress(errors.ResourceError):
                assert scope.read("big") == BIG
                read[number] += 1
            took.append(time.monotonic() - started)

    def all_read() -> None:
        before = read.copy()
        until(lambda: all(read[one] > before[one] for one in range(3)))

    with Daemon(tmp_path) as daemon, ExitStack() as stack:
        clients = [stack.enter_context(daemon.connect(timeout=patience)) for _ in range(3)]
        publish(clients[0], {"big": BIG})
        with ThreadPoolExecutor(len(clients)) as crowd:
            work = [crowd.submit(read_on, *one) for one in enumerate(clients)]
            try:
                all_read()
                assert daemon.stop() == 0
                daemon.start()
                all_read()
            finally:
                over.set()
            for one in work:
                one.result()
    assert max(took) < 2 * patience


def test_a_crowd_of_processes_all_get_their_bytes(published: Daemon) -> None:
    program = (
        "import sys, sealcar\n"
        "client = sealcar.connect(sys.argv[1])\n"
        "scope = client.scope('m', 'c', 'v')\n"
        "assert len(scope.read('big')) == 30 << 20\n"
    )
    crowd = [
        subprocess.Popen([sys.executable, "-c", program, str(published.socket)], env=environment())
        for _ in range(12)
    ]
    assert [process.wait(60) for process in crowd] == [0] * 12


def test_fork_does_not_hang_while_another_thread_holds_the_pool(published: Daemon) -> None:
    with published.connect() as client:
        scope = client.scope(PACKAGE, COMPONENT, VARIANT)
        stop = threading.Event()

        def read() -> None:
            while not stop.is_set():
                scope.read("small")

        threads = [threading.Thread(target=read) for _ in range(4)]
        for thread in threads:
            thread.start()
        try:
            codes = [_forked(lambda: scope.read("small") == b"small") for _ in range(20)]
        finally:
            stop.set()
            for thread in threads:
                thread.join()
    assert codes == [0] * 20


def _forked(check: Callable[[], bool]) -> int:
    child = os.fork()
    if child == 0:
        signal.alarm(20)
        try:
            os._exit(0 if check() else 3)
        finally:
            os._exit(4)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
