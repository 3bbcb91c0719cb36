"""The client's side of a byte stream, where the daemon does what it shouldn't."""

from __future__ import annotations

import os
import signal
import socket
import threading
from typing import TYPE_CHECKING

import pytest
from support.raw_streams import framed

from sealcar.errors import UnavailableError
from sealcar.transfer.incoming import Incoming
from sealcar.transfer.location import Location
from sealcar.transfer.pool import Pool
from sealcar.transfer.stream_connection import StreamConnection
from sealcar.v1 import common_pb2
from sealcar.v1 import data_socket_pb2 as pb

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


@pytest.fixture
def interrupted() -> Iterator[None]:
    def interrupt(*_: object) -> None:
        raise KeyboardInterrupt

    before = signal.signal(signal.SIGALRM, interrupt)
    signal.setitimer(signal.ITIMER_REAL, 0.2)
    yield
    signal.setitimer(signal.ITIMER_REAL, 0)
    signal.signal(signal.SIGALRM, before)


@pytest.mark.usefixtures("interrupted")
def test_a_piece_that_was_interrupted_ends_the_connection_and_not_in_silence() -> None:
    near, far = socket.socketpair()
    with far:
        connection = StreamConnection(near, 20)
        with pytest.raises(KeyboardInterrupt):
            _hand_over_until_nothing_moves(connection)
        assert not connection.usable
        # the daemon would wait for the rest of the piece, and take this for it
        with pytest.raises(UnavailableError):
            connection.send(pb.ClientPacket(cancel=pb.Cancel()))
        connection.close()


def _hand_over_until_nothing_moves(connection: StreamConnection) -> None:
    while True:
        connection.hand_over(pb.Piece(size=1 << 20))


def test_a_ring_over_a_stream_is_an_error_and_not_tried_again_without_end(tmp_path: Path) -> None:
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(tmp_path / "flow.sock"))
        listener.listen()
        threading.Thread(target=_answer, args=(listener,), daemon=True).start()
        location = Location(tmp_path, os.getuid())
        pool = Pool(location, timeout=5)
        pool.delivery.way = StreamConnection
        with pytest.raises(UnavailableError, match="no descriptor came"):
            pool.begin(lambda connection: Incoming(connection, common_pb2.Scope(), "x"))
        pool.close()


def _answer(listener: socket.socket) -> None:
    said = (pb.DaemonPacket(attested=pb.Attested(protocol=1)), pb.DaemonPacket(ring=pb.Ring()))
    with listener.accept()[0] as connection:
        for packet in said:
            connection.recv(1000)
            connection.sendall(framed(packet.SerializeToString()))
        connection.recv(1000)
