"""Who sent a packet: by a handle where that counts, by ids alone while pieces come."""

from __future__ import annotations

import os
import socket
from typing import TYPE_CHECKING

import pytest

from sealcar.v1 import data_socket_pb2 as pb
from sealcar_server.endpoints.data_packets import (
    OneSender,
    Sender,
    name_handles,
    name_senders,
    receive,
)

if TYPE_CHECKING:
    from collections.abc import Iterator

FIRST = Sender(pid=7, uid=1000, gid=1000, handle=55)
FREE = pb.ClientPacket(free=pb.Free(slots=[1])).SerializeToString()


@pytest.fixture
def pair() -> Iterator[tuple[socket.socket, socket.socket]]:
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    with ours, theirs:
        name_senders(ours)
        yield ours, theirs


def sender() -> OneSender:
    made = OneSender(FIRST.pid, None)
    assert made.is_same(FIRST)
    return made


def test_a_handle_comes_with_a_packet_that_is_received_when_it_is_wanted(
    pair: tuple[socket.socket, socket.socket],
) -> None:
    ours, theirs = pair
    seen = []
    for wanted in (True, False, True):
        theirs.send(FREE)
        name_handles(ours, wanted=wanted)
        seen.append(receive(ours)[1])
    assert {each[:-1] for each in seen} == {(os.getpid(), os.getuid(), os.getgid())}
    assert seen[0].handle == seen[2].handle
    assert seen[1].handle == 0
    if not seen[0].handle:
        pytest.skip("this kernel has no handles to send")


@pytest.mark.parametrize(
    ("other", "by_handle", "by_number"),
    [
        (FIRST, True, True),
        (FIRST._replace(handle=0), False, True),
        (FIRST._replace(handle=56), False, False),
        (FIRST._replace(pid=8, handle=0), False, False),
        (FIRST._replace(uid=0, handle=0), False, False),
        (FIRST._replace(gid=0, handle=0), False, False),
    ],
    ids=["all", "ids", "another handle", "another pid", "another uid", "another gid"],
)
def test_ids_are_enough_only_where_it_is_said_and_no_handle_came(
    other: Sender, *, by_handle: bool, by_number: bool
) -> None:
    assert sender().is_same(other) == by_handle
    assert sender().is_same(other, by_number=True) == by_number


def test_the_first_packet_is_never_taken_by_ids_alone() -> None:
    made = OneSender(FIRST.pid, None)
    assert not made.has_number
    assert not made.is_same(FIRST._replace(pid=8, handle=0), by_number=True)


def test_a_process_of_another_namespace_has_no_number() -> None:
    made = OneSender(0, None)
    assert made.is_same(FIRST._replace(pid=0))
    assert not made.has_number
