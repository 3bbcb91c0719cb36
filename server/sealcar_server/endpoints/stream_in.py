"""What comes in on a byte stream: messages, and the bytes of pieces straight into slots."""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, Final

from google.protobuf.message import DecodeError

from sealcar.errors import DeniedError, InvalidRequestError, WrongStateError
from sealcar.transfer.descriptors import PACKET
from sealcar.v1 import data_socket_pb2 as pb
from sealcar_server.endpoints.data_packets import OneSender, receive_into
from sealcar_server.endpoints.data_turns import ViolationError
from sealcar_server.sealing.layout import SEGMENT

if TYPE_CHECKING:
    import socket as sockets
    from collections.abc import Callable

    from sealcar_server.transfer.metering import Meter
    from sealcar_server.transfer.rings import Ring

_LENGTH: Final = 4


class Inflow:
    """One thread takes packets from it; slots come back from any.

    Args:
        sock: never waited for; stays the caller's.
        sender: who alone may send here.
        meter: told of senders that are somebody else.
    """

    def __init__(self, sock: sockets.socket, sender: OneSender, meter: Meter) -> None:
        self._sock, self._sender, self._meter = sock, sender, meter
        self._packet = pb.ClientPacket()
        self._ring: Ring | None = None
        self._free: deque[int] = deque()
        self._expect_message()

    @property
    def blocked(self) -> bool:
        """Whether there is no room for the piece that comes now."""
        return self._then == self._place and not self._free

    def begin(self, ring: Ring) -> None:
        """Put the bytes of pieces into this ring, all of which is free: a write begins."""
        self._free = deque(range(ring.slots))
        self._ring = ring

    def end(self) -> None:
        """Take no piece any more: a write has ended, and its ring may be given up."""
        self._ring = None

    def clear(self) -> None:
        """Forget everything; nothing is taken any more."""
        self._ring = None
        self._expect_message()

    def free(self, slot: int) -> None:
        """Have one more slot."""
        self._free.append(slot)

    def next(self) -> pb.ClientPacket:
        """Return the next packet; if it is a piece, its bytes lie in the slot that it names.

        Raises:
            BlockingIOError: not all of it has come, or there is no room for it.
            EOFError: the client has closed.
            DeniedError: another process sent it, or it brought descriptors.
            InvalidRequestError: it is over a limit, or no message.
            ViolationError: a piece without a write, or what isn't said on a stream.
            OSError: the connection is broken.
        """
        while True:
            self._fill()
            packet = self._then()
            if packet is not None:
                return packet

    def _expect(self, into: memoryview, then: Callable[[], pb.ClientPacket | None]) -> None:
        self._into, self._got, self._then = into, 0, then

    def _expect_message(self) -> None:
        self._expect(memoryview(bytearray(_LENGTH)), self._measure)

    def _fill(self) -> None:
        while self._got < len(self._into):
            count, sender = receive_into(self._sock, self._into[self._got :])
            if not count:
                raise EOFError
            if not self._sender.is_same(sender):
                self._meter.denied("peer")
                raise DeniedError("only the process that connected may send here")
            self._got += count

    def _measure(self) -> None:
        size = int.from_bytes(self._into, "little")
        if not 0 < size <= PACKET:
            raise InvalidRequestError(f"a message has 1 to {PACKET} bytes, not {size}")
        self._expect(memoryview(bytearray(size)), self._parse)

    def _parse(self) -> pb.ClientPacket | None:
        try:
            packet = pb.ClientPacket.FromString(bytes(self._into))
        except DecodeError:
            raise InvalidRequestError("not a ClientPacket") from None
        self._expect_message()
        kind = packet.WhichOneof("packet")
        if kind == "free":
            raise ViolationError(WrongStateError("a stream has no slots to give back"))
        if kind != "piece":
            return packet
        if packet.piece.size > SEGMENT:
            raise InvalidRequestError(f"a piece has at most {SEGMENT} bytes")
        self._packet = packet
        self._expect(memoryview(b""), self._place)
        return None

    def _place(self) -> None:
        ring = self._ring
        if ring is None:
            raise ViolationError(WrongStateError("a piece came without a write"))
        if not self._free:
            raise BlockingIOError
        piece = self._packet.piece
        # whatever the client thinks: it has no slots
        piece.slot = self._free.popleft()
        self._expect(ring.room(piece.slot, piece.size), self._placed)

    def _placed(self) -> pb.ClientPacket:
        self._expect_message()
        return self._packet
