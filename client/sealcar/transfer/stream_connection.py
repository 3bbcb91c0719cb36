"""For a process that can't be handed memory: pieces come and go as bytes of a stream."""

from __future__ import annotations

import ctypes
import mmap
import socket
from typing import TYPE_CHECKING, ClassVar, Final

from sealcar.errors import UnavailableError
from sealcar.transfer.connection import DataConnection
from sealcar.transfer.descriptors import PACKET
from sealcar.transfer.memory import PIECE
from sealcar.transfer.rings import Slots

if TYPE_CHECKING:
    from collections.abc import Callable

    from sealcar.v1 import data_socket_pb2 as pb

_LENGTH: Final = 4
# as much as the kernel allows: each filling of it takes a turn
_BUFFER: Final = 1 << 20


class StreamConnection(DataConnection):
    """As `DataConnection`, each message with its length in front, a piece's bytes behind it."""

    delivery: ClassVar[str] = "stream"

    def __init__(self, sock: socket.socket, timeout: float) -> None:
        super().__init__(sock, timeout)
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, _BUFFER)
        self._slot: Slots | None = None

    def ring(self, *, writable: bool) -> Slots:
        """Return the one slot of this process's own that is written from.

        Raises:
            UnavailableError: the daemon named a slot, of which there are none to read from.
        """
        if not writable:
            raise self._broken(UnavailableError("the daemon named a ring on a stream"))
        if self._slot is None:
            self._slot = Slots(
                mmap.mmap(-1, PIECE, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS), 1, PIECE
            )
        return self._slot

    def take(self, piece: pb.Piece, address: int) -> None:
        """Receive the bytes of a piece where they belong; raises as the other way does."""
        if piece.size > PIECE:
            raise self._broken(UnavailableError("the daemon announced too large a piece"))
        self._guarded(lambda: self._fill(_memory(address, piece.size)))

    def pass_on(self, piece: pb.Piece, put: Callable[[int], None]) -> None:
        """Receive the bytes of a piece in between, and have them moved from there."""
        between = self.ring(writable=True).address(0, min(piece.size, PIECE))
        self.take(piece, between)
        put(between)

    def hand_over(self, piece: pb.Piece) -> bool:
        """Send a piece and its bytes: the slot may be used again."""
        data = _memory(self.ring(writable=True).address(piece.slot, piece.size), piece.size)
        try:
            super().hand_over(piece)
            self._sending(lambda: self._sock.sendall(data, socket.MSG_NOSIGNAL))
        except BaseException:
            # interrupted: whatever came next would be taken for the rest of the piece
            self._broken(UnavailableError("a piece was sent in part"))
            raise
        return True

    def close(self) -> None:
        """Close the socket, and give the slot back."""
        super().close()
        if self._slot is not None:
            self._slot.close()
            self._slot = None

    def _put(self, message: bytes) -> None:
        framed = len(message).to_bytes(_LENGTH, "little") + message
        self._sock.sendall(framed, socket.MSG_NOSIGNAL)

    def _next(self) -> tuple[bytes, int | None]:
        length = bytearray(_LENGTH)
        if not self._fill(memoryview(length), or_end=True):
            return b"", None
        size = int.from_bytes(length, "little")
        if not 0 < size <= PACKET:
            raise UnavailableError("a message over the limits of the data socket came in")
        message = bytearray(size)
        self._fill(memoryview(message))
        return bytes(message), None

    def _fill(self, room: memoryview, *, or_end: bool = False) -> bool:
        """Receive as many bytes as there is room for; False: the daemon has closed, as it may."""
        done = 0
        while done < len(room):
            count = self._sock.recv_into(room[done:])
            if not count:
                if or_end and not done:
                    return False
                raise UnavailableError("the daemon closed the connection")
            done += count
        return True


def _memory(address: int, size: int) -> memoryview:
    return memoryview((ctypes.c_char * size).from_address(address)).cast("B")
