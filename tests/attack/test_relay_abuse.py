"""The public gRPC socket under clients that mean no good; the daemon serves on."""

from __future__ import annotations

import contextlib
import os
import random
import resource
import socket
import subprocess
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from support.daemon import Daemon
from support.grpcdoor import grpc_door

from sealcar.errors import ExhaustedError
from sealcar.v1 import package_store_pb2 as pb
from sealcar_server.access.principal import Principal
from sealcar_server.access.sessions import Sessions
from sealcar_server.endpoints.places import Places
from sealcar_server.endpoints.relay import INNER, Relay

if TYPE_CHECKING:
    from collections.abc import Iterator

PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
# a traceback of this must not show what `key` was
CRASH = """
from sealcar_server import logs
from sealcar_server.settings import Log
import structlog, sys
logs.configure(Log(format=sys.argv[1]))
def seal(key):
    raise RuntimeError("broken")
try:
    seal("ab" + "cd" * 16)
except RuntimeError:
    structlog.get_logger("t").exception("failed")
"""


@pytest.fixture(scope="module")
def abused(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Daemon]:
    with Daemon(tmp_path_factory.mktemp("d")) as daemon:
        yield daemon


def connected(daemon: Daemon) -> socket.socket:
    connection = socket.socket(socket.AF_UNIX)
    connection.connect(str(daemon.socket / "grpc.sock"))
    return connection


def descriptors(daemon: Daemon) -> int:
    return len(list(Path(f"/proc/{daemon.pid}/fd").iterdir()))


def settled(daemon: Daemon) -> int:
    """Return the descriptors that the daemon holds once it has noticed all that ended."""
    before, now = -1, descriptors(daemon)
    while before != now:
        time.sleep(0.5)
        before, now = now, descriptors(daemon)
    return now


def serves(daemon: Daemon) -> bool:
    with grpc_door(daemon) as door:
        door.packages.List(pb.ListRequest(), timeout=20)
    return True


@pytest.mark.parametrize("start", [b"", PREFACE, b"GET / HTTP/1.1\r\n\r\n"])
def test_bytes_that_are_no_protocol_end_their_own_connection_only(
    abused: Daemon, start: bytes
) -> None:
    chance = random.Random(7)  # noqa: S311  (the same bytes each time)
    for _ in range(50):
        with connected(abused) as connection:
            connection.settimeout(10)
            try:
                connection.sendall(start + chance.randbytes(chance.randrange(1, 5000)))
                connection.shutdown(socket.SHUT_WR)
                while connection.recv(4096):
                    pass
            except (BrokenPipeError, ConnectionResetError):
                continue
    assert serves(abused)


def test_connections_that_come_and_go_leave_no_descriptor_and_no_session(abused: Daemon) -> None:
    assert serves(abused)
    before = settled(abused)
    for _ in range(500):
        connected(abused).close()
    assert serves(abused)
    assert settled(abused) <= before + 2
    assert abused.metric("sealcar_sessions") == 0


@pytest.fixture
def inner(tmp_path: Path) -> Iterator[socket.socket]:
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind(str(tmp_path / INNER))
        listening.listen(200)
        listening.settimeout(0.3)
        yield listening


@contextlib.contextmanager
def relay_at(folder: Path, patience: float) -> Iterator[tuple[Path, Sessions]]:
    """Relay to what listens in the folder; yields where to connect, and who has joined."""
    door = folder / "door.sock"
    sessions = Sessions()
    relay = Relay(folder, sessions, of_one=3, patience=patience)
    listening = socket.socket(socket.AF_UNIX)
    listening.bind(str(door))
    listening.listen(200)
    relay.start({"main": listening})
    try:
        yield door, sessions
    finally:
        relay.stop()
        sessions.close()


def came(door: Path) -> socket.socket:
    connection = socket.socket(socket.AF_UNIX)
    connection.settimeout(10)
    connection.connect(str(door))
    return connection


def test_who_hangs_up_or_says_nothing_makes_no_inner_connection(
    tmp_path: Path, inner: socket.socket
) -> None:
    with relay_at(tmp_path, 60) as (door, sessions):
        for _ in range(50):
            came(door).close()
        with came(door) as silent:
            with pytest.raises(TimeoutError):
                inner.accept()
            assert sessions.count() == 0
            silent.sendall(PREFACE)
            with inner.accept()[0] as served:
                assert served.recv(100) == PREFACE
            assert sessions.count() == 1


def test_who_says_nothing_is_counted_and_ended_after_a_while(
    tmp_path: Path, inner: socket.socket
) -> None:
    with relay_at(tmp_path, 0.5) as (door, _), contextlib.ExitStack() as stack:
        silent = [stack.enter_context(came(door)) for _ in range(3)]
        with came(door) as one_too_many:
            assert one_too_many.recv(1) == b""
        assert [one.recv(1) for one in silent] == [b""] * 3
        with came(door) as next_one:
            next_one.sendall(PREFACE)
            with inner.accept()[0] as served:
                assert served.recv(100) == PREFACE


def test_who_hangs_up_before_he_said_anything_gives_his_place_back(
    tmp_path: Path, inner: socket.socket
) -> None:
    with relay_at(tmp_path, 60) as (door, _), contextlib.ExitStack() as stack:
        silent = [stack.enter_context(came(door)) for _ in range(3)]
        with came(door) as one_too_many:
            assert one_too_many.recv(1) == b""
        for one in silent:
            one.close()
        time.sleep(0.1)
        with came(door) as next_one:
            next_one.sendall(PREFACE)
            with inner.accept()[0] as served:
                assert served.recv(100) == PREFACE


def test_many_uids_together_have_no_more_places_than_there_are() -> None:
    refused: list[tuple[int, str]] = []
    places = Places(2, 3, lambda who, reason: refused.append((who.uid, reason)))
    for uid in (1, 1, 2):
        assert places.enter(Principal("main", uid, uid)) == uid
    for uid in (1, 3):
        with pytest.raises(ExhaustedError, match="all have 3"):
            places.enter(Principal("main", uid, uid))
    assert refused == [(1, "connections"), (3, "connections")]
    places.leave(1)
    assert places.enter(Principal("main", 3, 3)) == 3


def test_a_client_that_never_reads_its_answers_holds_up_nobody(abused: Daemon) -> None:
    with connected(abused) as silent:
        silent.settimeout(1)
        # pings, each of which asks for an answer that is never taken
        ping = b"\x00\x00\x08\x06\x00\x00\x00\x00\x00" + os.urandom(8)
        settings = b"\x00\x00\x00\x04\x00\x00\x00\x00\x00"
        try:
            silent.sendall(PREFACE + settings)
            for _ in range(200):
                silent.sendall(ping * 1000)
        except OSError:
            pass  # it was held back, or thrown out
        assert serves(abused)


@pytest.mark.parametrize("room", [0, 1, 2, 8])
def test_a_daemon_out_of_descriptors_recovers(tmp_path: Path, room: int) -> None:
    with Daemon(tmp_path) as daemon:
        used = max(int(entry.name) for entry in Path(f"/proc/{daemon.pid}/fd").iterdir()) + 1
        limit_descriptors(daemon, used + room)
        with contextlib.ExitStack() as idle:
            for _ in range(40):
                idle.enter_context(connected(daemon))
            time.sleep(1)
        limit_descriptors(daemon, 1024)
        assert serves(daemon)
        # it waited, and didn't spin
        assert len(daemon.log) < 100


def limit_descriptors(daemon: Daemon, limit: int) -> None:
    _, most = resource.prlimit(daemon.pid, resource.RLIMIT_NOFILE)
    resource.prlimit(daemon.pid, resource.RLIMIT_NOFILE, (limit, most))


@pytest.mark.parametrize("form", ["json", "console"])
def test_a_traceback_shows_no_local_variable(form: str) -> None:
    done = subprocess.run(
        [sys.executable, "-c", CRASH, form], capture_output=True, text=True, check=True
    )
    assert "RuntimeError" in done.stderr
    assert "abcdcd" not in done.stderr


def test_who_hangs_up_before_he_is_looked_at_takes_a_part_of_the_relays_time_and_others_have_turns(
    abused: Daemon,
) -> None:
    begun = time.monotonic()
    for _ in range(300):
        connected(abused).close()
    with connected(abused) as next_one:
        next_one.settimeout(10)
        next_one.sendall(PREFACE + b"\0\0\0\4\0\0\0\0\0")
        assert next_one.recv(9)[3] == 4, "the daemon's own settings"
    # half a millisecond after each of them that was closed when it was accepted: most of them
    assert time.monotonic() - begun > 0.05
