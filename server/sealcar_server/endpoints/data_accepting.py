"""Taking clients of the data socket in: a line of its kind for each."""

from __future__ import annotations

import contextlib
import os
import socket as sockets
from typing import TYPE_CHECKING, Final

from sealcar_server.endpoints.data_line import Line
from sealcar_server.endpoints.stream_line import StreamLine
from sealcar_server.endpoints.stream_mover import Mover

if TYPE_CHECKING:
    from sealcar_server.access.peers import Peer
    from sealcar_server.transfer.metering import Meter

# as much as the kernel allows: each filling of it takes a turn
_BUFFER: Final = 1 << 20


class Lines:
    """Makes the lines to clients. On the data socket's thread.

    Args:
        meter: told of senders that are somebody else.
    """

    def __init__(self, meter: Meter) -> None:
        self._meter = meter
        self._mover = Mover()

    def line(self, sock: sockets.socket, peer: Peer) -> Line | StreamLine:
        """Return the line over a socket that was accepted."""
        if sock.type is sockets.SOCK_STREAM:
            with contextlib.suppress(OSError):
                sock.setsockopt(sockets.SOL_SOCKET, sockets.SO_SNDBUF, _BUFFER)
            return StreamLine(sock, peer, self._meter, self._mover)
        return Line(sock, peer, self._meter)

    def close(self) -> None:
        """Move no byte any more."""
        self._mover.close()


def accepted(listener: sockets.socket) -> sockets.socket:
    """Accept a connection if descriptors are left for it and those there are; raises OSError."""
    sock, _address = listener.accept()
    try:
        # its process takes one, and the kernel names the sender of every packet by another: with
        # none left nobody could be told apart, and so nobody be served
        spare = os.dup(sock.fileno())
        try:
            os.close(os.dup(sock.fileno()))
        finally:
            os.close(spare)
    except OSError:
        sock.close()
        raise
    return sock
