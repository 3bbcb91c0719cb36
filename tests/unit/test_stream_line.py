"""A stream as the daemon's connection sees it: one question at a time, and no work for nothing."""

from __future__ import annotations

import socket
import time
from typing import TYPE_CHECKING

import pytest
from support.raw_streams import framed

from sealcar.v1 import data_socket_pb2 as pb
from sealcar_server.access.peers import peer_of
from sealcar_server.endpoints.data_packets import OneSender, name_senders
from sealcar_server.endpoints.stream_line import StreamLine
from sealcar_server.endpoints.stream_mover import Mover
from sealcar_server.metrics import Metrics

if TYPE_CHECKING:
    from collections.abc import Iterator

STATE = framed(pb.ClientPacket(state=pb.StateRequest()).SerializeToString())
PIECE = framed(pb.ClientPacket(piece=pb.Piece(size=1)).SerializeToString()) + b"x"


class Ends:
    """A line with its mover, and the client's end of it."""

    def __init__(self) -> None:
        near, self.client = socket.socketpair()
        name_senders(near)
        near.settimeout(0)
        self.client.settimeout(10)
        self.mover = Mover()
        peer = peer_of(near, "default")
        self.line = StreamLine(near, OneSender(near, peer), Metrics(), self.mover)
        peer.close()
        self.arrived = self.moved = 0
        move = self.line._move

        def count() -> None:
            self.moved += 1
            move()

        self.line._move = count  # type: ignore[method-assign]  # counted, and done
        self.line.begin("owner", self._came)

    def _came(self) -> None:
        self.arrived += 1

    def wait(self, arrived: int) -> None:
        deadline = time.monotonic() + 10
        while self.arrived < arrived:
            assert time.monotonic() < deadline
            time.sleep(0.001)

    def close(self) -> None:
        self.line.close()
        self.mover.close()
        self.client.close()


@pytest.fixture
def ends() -> Iterator[Ends]:
    made = Ends()
    yield made
    made.close()


def settled(ends: Ends) -> int:
    """Return how often the mover was called, once nothing happens any more."""
    time.sleep(0.05)
    before = ends.moved
    time.sleep(0.1)
    assert ends.moved == before, "it moves nothing, again and again"
    return before


def test_a_question_is_taken_when_the_one_before_was_and_the_rest_stays_in_the_socket(
    ends: Ends,
) -> None:
    ends.client.sendall(STATE * 100)
    for number in range(1, 101):
        ends.wait(number)
        assert ends.arrived == number
        if number < 3:
            settled(ends)
        assert ends.arrived == number
        packet = ends.line.receive()
        assert packet
        assert packet.HasField("state")
    with pytest.raises(BlockingIOError):
        ends.line.receive()


def test_pieces_without_a_slot_wait_and_keep_nobody_busy(ends: Ends) -> None:
    ring = ends.line.ring(client_writes=True, slots=2)
    ends.line.send(pb.DaemonPacket(writing=pb.Writing()))
    ends.client.sendall(PIECE * 3)
    ends.wait(2)
    settled(ends)
    assert ends.arrived == 2
    found = [ends.line.receive() for _ in range(2)]
    assert [one.piece.slot for one in found if one] == [0, 1]
    ends.line.send(pb.DaemonPacket(free=pb.Free(slots=[1])))
    ends.wait(3)
    third = ends.line.receive()
    assert third
    assert third.piece.slot == 1
    ends.line.close()
    ring.close()


def test_nothing_is_left_of_a_line_that_was_closed(ends: Ends) -> None:
    number = ends.line.fileno()
    ends.line.close()
    # whoever gets the number next isn't taken for it
    assert number not in ends.mover._watch._watched
    before = ends.moved
    ends.mover.arm(number, 1)
    ends.client.close()
    assert settled(ends) == before
