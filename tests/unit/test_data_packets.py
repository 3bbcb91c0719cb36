"""Who sent a packet: the one that connected, by its number while it lives, or by its handle."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from contextlib import closing
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest
from support.raw_clients import descriptors

from sealcar_server.access.peers import Peer, peer_of
from sealcar_server.endpoints.data_packets import OneSender, Sender, name_senders, receive

if TYPE_CHECKING:
    from collections.abc import Iterator

SO_PASSPIDFD = 76
SENDS = """
import socket, sys
sock = socket.socket(fileno=int(sys.argv[1]))
sock.send(b"one")
sys.stdin.read()
"""


@pytest.fixture
def ends() -> Iterator[tuple[socket.socket, socket.socket]]:
    near, far = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    with near, far:
        name_senders(near)
        yield near, far


@pytest.fixture
def peer(ends: tuple[socket.socket, socket.socket]) -> Iterator[Peer]:
    near, _ = ends
    made = peer_of(near, "default")
    yield made
    made.close()


def of(peer: Peer) -> Sender:
    return Sender(peer.pid, peer.principal.uid, peer.principal.gid, 0)


def test_a_process_with_a_number_is_named_without_a_handle(
    ends: tuple[socket.socket, socket.socket], peer: Peer
) -> None:
    near, far = ends
    with closing(OneSender(near, peer)) as one:
        for _ in range(2):
            far.send(b"packet")
            sender = receive(near)[1]
            assert sender == of(peer)
            assert one.is_same(sender)


def test_of_one_without_a_number_every_packet_brings_a_handle(
    ends: tuple[socket.socket, socket.socket], peer: Peer
) -> None:
    near, far = ends
    try:
        assert not near.getsockopt(socket.SOL_SOCKET, SO_PASSPIDFD)
    except OSError:
        pytest.skip("before Linux 6.5 there are no handles")
    with closing(OneSender(near, replace(peer, pid=0))) as one:
        far.send(b"packet")
        sender = receive(near)[1]
        assert sender.handle
        assert not one.is_same(sender._replace(handle=sender.handle + 1)), "not who connected"
        assert one.is_same(sender)
        assert not one.is_same(sender._replace(handle=sender.handle + 1))
        assert not one.is_same(sender._replace(handle=0))
        assert not one.is_same(sender._replace(handle=-1))


@pytest.mark.parametrize("field", ["pid", "uid", "gid"])
@pytest.mark.parametrize("later", [False, True], ids=["first", "later"])
def test_whoever_differs_in_anything_is_another_one(
    ends: tuple[socket.socket, socket.socket], peer: Peer, field: str, *, later: bool
) -> None:
    other = of(peer)._replace(**{field: 4711})
    with closing(OneSender(ends[0], peer)) as one:
        if later:
            assert one.is_same(of(peer))
        # whoever sends first may have other ids than he connected with, and keeps them then
        assert one.is_same(other) == (not later and field != "pid")
        assert one.is_same(of(peer)) == (later or field == "pid")


def test_a_packet_of_a_process_that_has_ended_since_is_nobodys(
    ends: tuple[socket.socket, socket.socket], peer: Peer
) -> None:
    near, far = ends
    number = far.fileno()
    process = subprocess.Popen(
        [sys.executable, "-c", SENDS, str(number)], pass_fds=[number], stdin=subprocess.PIPE
    )
    with process:
        sender = receive(near)[1]
        other = replace(peer, pid=process.pid, pidfd=os.pidfd_open(process.pid))
        with closing(OneSender(near, other)) as one:
            other.close()
            assert one.is_same(sender)
            process.communicate()
            assert not one.is_same(sender), "its number may be another one's by now"


@pytest.mark.parametrize("number", [True, False], ids=["with a number", "without"])
def test_when_it_is_closed_nobody_is_the_same_and_nothing_is_left_open(
    ends: tuple[socket.socket, socket.socket], peer: Peer, *, number: bool
) -> None:
    before = descriptors(os.getpid())
    one = OneSender(ends[0], peer if number else replace(peer, pid=0))
    assert one.is_same(of(peer))
    one.close()
    one.close()
    assert not one.is_same(of(peer))
    assert descriptors(os.getpid()) == before
