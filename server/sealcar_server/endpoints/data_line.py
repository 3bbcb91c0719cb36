"""The line to one client of the data socket: whole messages, from one process, without waiting."""

from __future__ import annotations

import contextlib
import socket as sockets
from typing import TYPE_CHECKING, Final

from google.protobuf.message import DecodeError

from sealcar.errors import DeniedError, InvalidRequestError, UnavailableError
from sealcar.transfer.descriptors import send_with_descriptor
from sealcar.v1 import data_socket_pb2 as pb
from sealcar_server.endpoints.data_packets import receive
from sealcar_server.transfer.rings import Ring

if TYPE_CHECKING:
    from sealcar_server.endpoints.data_packets import OneSender
    from sealcar_server.transfer.metering import Meter
    from sealcar_server.transfer.spare import Spare

_AT_ONCE: Final = int(sockets.MSG_DONTWAIT | sockets.MSG_NOSIGNAL)


class Line:
    """Of packets, which can bring a client descriptors. Owns the socket.

    On the socket's thread, but for `send`.

    Args:
        sock: accepted.
        sender: who alone may send here; owned too.
        meter: told of senders that are somebody else.
        spare: has a ring that is made already.
    """

    delivery: Final = "ring"

    def __init__(self, sock: sockets.socket, sender: OneSender, meter: Meter, spare: Spare) -> None:
        self._sock = sock
        self._meter, self._spare = meter, spare
        self._sender = sender

    def has_ring(self, *, client_writes: bool, slots: int) -> bool:
        """Tell whether a ring for so many segments is made already."""
        return not client_writes and self._spare.has(slots)

    def ring(self, *, client_writes: bool, slots: int) -> Ring:
        """Return a ring whose memory can be handed to the client; ExhaustedError."""
        ready = None if client_writes else self._spare.take(slots)
        return ready or Ring.of_size(slots, client_writes=client_writes)

    def receive(self) -> pb.ClientPacket | None:
        """Return the next message; None: the client has closed.

        Raises:
            DeniedError: another process sent it, or it brought descriptors.
            InvalidRequestError: it is over the limit, or no message.
            BlockingIOError: none has arrived.
            OSError: the connection is broken.
        """
        data, sender = receive(self._sock)
        if not data:
            return None
        if not self._sender.is_same(sender):
            self._meter.denied("peer")
            raise DeniedError("only the process that connected may send here")
        try:
            return pb.ClientPacket.FromString(data)
        except DecodeError:
            raise InvalidRequestError("not a ClientPacket") from None

    def send(self, packet: pb.DaemonPacket, descriptor: int | None = None) -> None:
        """Send one message. From any thread.

        Raises:
            UnavailableError: the client is gone, or hasn't received what was sent before.
        """
        data = packet.SerializeToString()
        try:
            if descriptor is None:
                self._sock.send(data, _AT_ONCE)
            else:
                send_with_descriptor(self._sock, data, descriptor, _AT_ONCE)
        except OSError as error:
            raise UnavailableError("the client is gone, or doesn't receive") from error

    def hang_up(self) -> None:
        """Let nothing more through; the client still receives what was sent."""
        with contextlib.suppress(OSError):
            self._sock.shutdown(sockets.SHUT_RDWR)

    def close(self) -> None:
        """Close the socket."""
        self._sender.close()
        self._sock.close()

    def fileno(self) -> int:
        """Return the socket's descriptor."""
        return self._sock.fileno()
