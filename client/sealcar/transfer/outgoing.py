"""A payload on its way out, through the slots of a ring that the daemon seals from."""

from __future__ import annotations

import contextlib
import ctypes
from typing import TYPE_CHECKING, Final

from sealcar.errors import UnavailableError, WrongStateError
from sealcar.v1 import data_socket_pb2 as pb

if TYPE_CHECKING:
    from sealcar.transfer.connection import DataConnection
    from sealcar.v1 import common_pb2, payloads_pb2

# the last answer comes after fsync, which on a slow disk takes as long as writing everything
_SYNC_PATIENCE: Final = 600.0


class Outgoing:
    """One write on one connection. Bytes go straight into the slot that is being filled.

    Attributes:
        finished: the connection is free for the next request.
        size: bytes taken so far.
    """

    def __init__(self, connection: DataConnection, begin: payloads_pb2.WriteBegin) -> None:
        writing = connection.request(pb.ClientPacket(write=begin), "writing").writing
        self._connection = connection
        self._ring = connection.ring(writable=True)
        self._free = list(range(self._ring.slots))
        self._next_size: int = writing.piece_size
        self._room: int = writing.first_piece_size
        if not 0 < max(self._room, self._next_size) <= self._ring.slot_size or not self._room:
            raise UnavailableError("the daemon asks for pieces that its ring can't hold")
        self._slot = self._free.pop()
        self._filled = 0
        self._sent = 0
        self.finished = False

    @property
    def size(self) -> int:
        """Bytes taken so far."""
        return self._sent + self._filled

    def write(self, address: int, size: int) -> None:
        """Take bytes in order; they belong to the caller again when this returns.

        Raises:
            WrongStateError: finished already, or in another process.
            SealcarError: what the daemon answered.
        """
        self._check()
        taken = 0
        while taken < size:
            if self._filled == self._room:
                self._hand_over(last=False)
                self._slot = self._free_slot()
            count = min(self._room - self._filled, size - taken)
            target = self._ring.address(self._slot, self._room) + self._filled
            ctypes.memmove(target, address + taken, count)
            self._filled += count
            taken += count

    def finish(self) -> common_pb2.PayloadInfo:
        """Send the last piece and wait until the payload is sealed and on disk.

        Raises:
            WrongStateError: finished already, or in another process.
            SealcarError: what the daemon answered.
        """
        self._check()
        self._hand_over(last=True)
        payload = self._end()
        self.finished = True
        return payload

    def cancel(self) -> None:
        """Break it off; when this returns the daemon has thrown away what it had of it.

        Where the end came first it is the daemon's, and stands in the way of a commit.

        Raises:
            SealcarError: the connection is gone; the daemon throws it away then too.
        """
        self._check()
        self._connection.send(pb.ClientPacket(cancel=pb.Cancel()))
        with contextlib.suppress(WrongStateError):
            self._end()
        self.finished = True

    def _end(self) -> common_pb2.PayloadInfo:
        while True:
            answer = self._connection.answer("free", "written", patience=_SYNC_PATIENCE)
            if answer.WhichOneof("packet") == "written":
                return answer.written.payload

    def _check(self) -> None:
        self._connection.check_process()
        if self.finished:
            raise WrongStateError("this payload is finished")

    def _hand_over(self, *, last: bool) -> None:
        piece = pb.Piece(slot=self._slot, offset=self._sent, size=self._filled, last=last)
        if self._connection.hand_over(piece):
            self._free.append(self._slot)
        self._sent += self._filled
        self._filled, self._room = 0, self._next_size

    def _free_slot(self) -> int:
        while not self._free:
            self._free.extend(self._connection.answer("free").free.slots)
        return self._free.pop()
