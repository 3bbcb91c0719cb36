"""A payload on its way in: small ones are in the answer, the others come piece by piece."""

from __future__ import annotations

import ctypes
from typing import TYPE_CHECKING

from sealcar.errors import InvalidNameError, TruncatedError, UnavailableError, WrongStateError
from sealcar.transfer.descriptors import Exported
from sealcar.transfer.memory import advise_huge, wipe
from sealcar.v1 import data_socket_pb2 as pb

if TYPE_CHECKING:
    from collections.abc import Callable

    from sealcar.transfer.any_reader import Put
    from sealcar.transfer.connection import DataConnection
    from sealcar.v1 import common_pb2


class Incoming:
    """One read on one connection.

    Attributes:
        size: of the whole payload.
        finished: the connection is free for the next request.
    """

    def __init__(self, connection: DataConnection, scope: common_pb2.Scope, name: str) -> None:
        try:
            packet = pb.ClientPacket()
            packet.read.name = name
            packet.read.scope.CopyFrom(scope)
        except (TypeError, ValueError) as error:
            raise InvalidNameError(f"not a payload's name: {error}") from None
        reading = connection.request(packet, "reading").reading
        self._connection = connection
        self._data: bytes | None = reading.data if reading.HasField("data") else None
        self.size: int = reading.size if self._data is None else len(self._data)
        self.finished = self._data is not None
        self._begun = False

    def take(self) -> bytes | None:
        """Return the payload if it came with the answer; None: it has to be read, or can't be."""
        if self._data is None or self._connection.inherited:
            return None
        data, self._data, self._begun = self._data, None, True
        return data

    def read_into(self, address: int) -> None:
        """Fill `size` bytes at an address, all of them or wiped.

        Raises:
            WrongStateError: read already, or in another process.
            SealcarError: what the daemon answered instead of the end.
        """
        advise_huge(address, self.size)
        try:
            self.bring(address, _nobody)
        except BaseException:
            wipe(address, self.size)
            raise

    def bring(self, address: int, arrived: Callable[[int, int], None]) -> None:
        """Fill `size` bytes at an address.

        Args:
            address: where; what is there when this fails, the caller has to wipe.
            arrived: is told offset and size of each piece when it is there.

        Raises:
            WrongStateError: read already, or in another process.
            SealcarError: what the daemon answered instead of the end.
        """
        data = self._begin()
        if data is not None:
            ctypes.memmove(address, data, self.size)
            arrived(0, self.size)
            return

        def move(piece: pb.Piece) -> None:
            self._connection.take(piece, address + piece.offset)
            arrived(piece.offset, piece.size)

        self._drain(move)

    def pass_on(self, put: Put) -> None:
        """Have every piece moved from where it lies; raises as `bring`."""
        data = self._begin()
        if data is not None:
            with Exported(data) as whole:
                put(0, whole.address, whole.size)
            return
        self._drain(
            lambda piece: self._connection.pass_on(
                piece, lambda lies: put(piece.offset, lies, piece.size)
            )
        )

    def _begin(self) -> bytes | None:
        """Return the payload if it came with the answer; raises as `bring`."""
        self._connection.check_process()
        if self._begun:
            raise WrongStateError("this payload has been read")
        self._begun = True
        data, self._data = self._data, None
        return data

    def _drain(self, move: Callable[[pb.Piece], None]) -> None:
        came: dict[int, int] = {}
        while True:
            packet = self._connection.answer("piece", "done")
            if packet.WhichOneof("packet") == "done":
                break
            piece = packet.piece
            if piece.offset + piece.size > self.size or piece.offset in came:
                raise UnavailableError("the daemon announced bytes outside the payload or twice")
            move(piece)
            came[piece.offset] = piece.size
        self._connection.release()
        if packet.done.size != self.size or not _covers(came, self.size):
            raise TruncatedError("the daemon ended before every byte had come")
        self.finished = True


def _nobody(offset: int, size: int) -> None:
    """Tell nobody of a piece."""


def _covers(pieces: dict[int, int], size: int) -> bool:
    end = 0
    for offset in sorted(pieces):
        if offset != end:
            return False
        end += pieces[offset]
    return end == size
