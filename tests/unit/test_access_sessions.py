from __future__ import annotations

import os
import selectors
import socket
import subprocess
import sys
import threading
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from sealcar.errors import DeniedError, UnavailableError
from sealcar_server.access import peers
from sealcar_server.access.peers import Kernel, Peer, peer_of
from sealcar_server.access.principal import Principal
from sealcar_server.access.sessions import Sessions

if TYPE_CHECKING:
    from collections.abc import Iterator

CONNECT = """
import socket, sys
connections = []
for _ in range(int(sys.argv[2])):
    connection = socket.socket(socket.AF_UNIX)
    connection.connect(sys.argv[1])
    connections.append(connection)
sys.stdin.read()
"""


@pytest.fixture
def sessions() -> Iterator[Sessions]:
    sessions = Sessions()
    yield sessions
    sessions.close()


@pytest.fixture
def listener(tmp_path: Path) -> Iterator[socket.socket]:
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(tmp_path / "s"))
        listener.listen()
        yield listener


def start_client(listener: socket.socket, connections: int) -> subprocess.Popen[bytes]:
    command = [sys.executable, "-c", CONNECT, listener.getsockname(), str(connections)]
    return subprocess.Popen(command, stdin=subprocess.PIPE)


def accept_peer(listener: socket.socket, kernel: Kernel | None = None) -> Peer:
    connection, _ = listener.accept()
    with connection:
        return peer_of(connection, "default", kernel)


def test_a_peer_is_who_the_kernel_says_it_is(listener: socket.socket) -> None:
    with start_client(listener, 1) as client:
        peer = accept_peer(listener)
        assert peer.principal == Principal("default", os.getuid(), os.getgid())
        assert peer.pid == client.pid
        assert peer.pidfd is not None
        assert not os.get_inheritable(peer.pidfd)
        peer.close()
        client.communicate()


def test_a_connection_whose_process_has_gone_is_never_taken_for_another(
    listener: socket.socket, sessions: Sessions
) -> None:
    with start_client(listener, 1) as client:
        client.communicate()
    gone = threading.Event()
    try:
        peer = accept_peer(listener)
    except DeniedError:
        return  # what kernels say that keep no handle on a reaped process
    sessions.join(peer, "a").on_end(gone.set)
    assert gone.wait(10)


def test_a_peer_that_can_not_be_told_apart_is_refused_and_holds_no_descriptor(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def unreadable(*_: object) -> None:
        raise OSError(5, "can't be read")

    monkeypatch.setattr(peers, "_session_key", unreadable)
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    with ours, theirs:
        before = len(list(Path("/proc/self/fd").iterdir()))
        with pytest.raises(DeniedError):
            peer_of(ours, "default")
        assert len(list(Path("/proc/self/fd").iterdir())) == before


def test_connections_of_one_process_are_one_session(
    listener: socket.socket, sessions: Sessions
) -> None:
    with start_client(listener, 2) as client, start_client(listener, 1) as other:
        peers = [accept_peer(listener) for _ in range(3)]
        joined = [sessions.join(peer, at) for at, peer in enumerate(peers)]
        by_pid = {peer.pid: session for peer, session in zip(peers, joined, strict=True)}
        assert len({session.id for session in joined}) == sessions.count() == 2
        assert by_pid[client.pid] is not by_pid[other.pid]
        client.communicate()
        other.communicate()


def test_where_handles_are_all_alike_a_process_is_its_number_and_its_start(
    listener: socket.socket, sessions: Sessions
) -> None:
    older = Kernel(unique=False)
    with start_client(listener, 2) as client, start_client(listener, 1) as other:
        found = [accept_peer(listener, older) for _ in range(3)]
        assert {peer.assurance for peer in found} == {"pidfd-shared"}
        joined = [sessions.join(peer, at) for at, peer in enumerate(found)]
        by_pid = {peer.pid: session for peer, session in zip(found, joined, strict=True)}
        assert len({session.id for session in joined}) == sessions.count() == 2
        ended = {pid: threading.Event() for pid in by_pid}
        for pid, session in by_pid.items():
            session.on_end(ended[pid].set)
        client.kill()
        assert ended[client.pid].wait(10)
        assert not ended[other.pid].is_set()
        client.communicate()
        other.communicate()


def test_a_session_ends_when_its_process_exits(listener: socket.socket, sessions: Sessions) -> None:
    with start_client(listener, 2) as client:
        first, second = (sessions.join(accept_peer(listener), at) for at in range(2))
        ended = threading.Event()
        first.on_end(ended.set)
        assert not ended.is_set()
        client.kill()
        assert ended.wait(10)
        client.communicate()
    assert first is second
    assert first.ended
    assert sessions.count() == 0


def test_a_session_ends_with_its_last_connection(
    listener: socket.socket, sessions: Sessions
) -> None:
    ends: list[str] = []
    with start_client(listener, 2) as client:
        session, _ = (sessions.join(accept_peer(listener), at) for at in range(2))
        session.on_end(lambda: ends.append("end"))
        sessions.leave(0)
        assert not ends
        sessions.leave(1)
        sessions.leave(1)
        assert ends == ["end"]
        client.communicate()
    assert ends == ["end"]


def test_what_is_hung_on_an_ended_session_is_freed_at_once(sessions: Sessions) -> None:
    session = sessions.join(stranger(), "a")
    sessions.leave("a")
    ends: list[str] = []
    session.on_end(lambda: ends.append("end"))
    assert ends == ["end"]


def test_a_callback_that_fails_does_not_keep_others_from_running(sessions: Sessions) -> None:
    def fail() -> None:
        raise RuntimeError("broken")

    ends: list[str] = []
    session = sessions.join(stranger(), "a")
    session.on_end(fail)
    session.on_end(lambda: ends.append("end"))
    sessions.leave("a")
    assert ends == ["end"]


def test_a_process_that_changed_its_uid_is_another_session(sessions: Sessions) -> None:
    before, after = stranger(uid=1, key="p"), stranger(uid=2, key="p")
    assert sessions.join(before, "a") is not sessions.join(after, "b")
    assert sessions.join(stranger(uid=2, key="p"), "c").principal.uid == 2


def test_the_daemons_own_uid_is_refused_when_isolation_is_by_uid() -> None:
    kinds: list[str] = []
    sessions = Sessions(own_uid=7, on_denied=kinds.append)
    with pytest.raises(DeniedError, match="uid 7 is the daemon's own"):
        sessions.join(stranger(uid=7), "a")
    sessions.join(stranger(uid=8), "b")
    assert kinds == ["own-uid"]
    assert sessions.count() == 1
    sessions.close()


def test_closing_ends_every_session_and_admits_no_more() -> None:
    counts: list[int] = []
    sessions = Sessions(on_count=counts.append)
    session = sessions.join(stranger(), "a")
    sessions.close()
    assert session.ended
    assert sessions.count() == 0
    with pytest.raises(UnavailableError, match="stopping"):
        sessions.join(stranger(), "b")
    assert counts == [1]


def stranger(*, uid: int = 1, key: str = "a") -> Peer:
    """Return a peer in another pid namespace, of which nothing but uid and gid is known."""
    return Peer(Principal("default", uid, 1), 0, None, key, "connection")


class LateSelector(selectors.DefaultSelector):
    """Tells of an end by its descriptor's number, which others have had since, as a thread may."""

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        super().select(timeout)
        return [(key, selectors.EVENT_READ) for key in self.get_map().values()]


def test_a_process_is_not_taken_for_one_that_ended_and_had_its_descriptors_number(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(selectors, "DefaultSelector", LateSelector)
    sessions = Sessions()
    principal = Principal("default", 1, 1)
    ended = threading.Event()
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as process:
        own = Peer(principal, os.getpid(), os.pidfd_open(os.getpid()), "own", "pidfd")
        living = sessions.join(own, "living")
        ending = Peer(principal, process.pid, os.pidfd_open(process.pid), "ending", "pidfd")
        sessions.join(ending, "ending").on_end(ended.set)
        process.communicate()
        assert ended.wait(30)
    assert sessions.connected() == [living]
    sessions.close()
