"""A payload on its way from a client, as its connection sees it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sealcar.errors import SealcarError, UnavailableError, WrongStateError
from sealcar.v1 import data_socket_pb2 as pb
from sealcar.v1 import payloads_pb2
from sealcar_server.endpoints.data_operations import Operation
from sealcar_server.endpoints.data_turns import Phase, ViolationError
from sealcar_server.endpoints.messages import payload_message
from sealcar_server.sealing.layout import FIRST_PIECE, PIECE
from sealcar_server.transfer.engine import Token
from sealcar_server.transfer.rings import SLOTS
from sealcar_server.transfer.writing import PieceOrder, RingWrite

if TYPE_CHECKING:
    from collections.abc import Mapping

    from sealcar_server.access.permit import Permit
    from sealcar_server.endpoints.connection import Connection
    from sealcar_server.service.values import PayloadValue
    from sealcar_server.service.writing import PayloadSink
    from sealcar_server.transfer.rings import Ring


class WriteOperation(Operation):
    """A payload through the ring from the client."""

    client_writes = True
    most_slots = SLOTS

    def __init__(
        self,
        connection: Connection,
        permit: Permit,
        sink: PayloadSink,
        place: Mapping[str, str | int],
    ) -> None:
        super().__init__(connection, permit)
        self._sink = sink
        self._place = place
        self._order = PieceOrder(sink.size)
        self._busy: set[int] = set()
        self._slots = 0
        self._writing: RingWrite | None = None

    @property
    def waits_for_client(self) -> bool:
        """Whether nothing can go on before the client does something."""
        return not self._busy and not self._order.complete

    def begin(self, ring: Ring) -> None:
        """Start moving bytes."""
        connection = self._connection
        connection.phase = Phase.MOVING
        self._flow = self._writing = RingWrite(self._sink.writer, ring, self._free, self._end_soon)
        self._writing.owner = connection.peer.principal.account
        self._slots = ring.slots
        writing = pb.Writing(first_piece_size=FIRST_PIECE, piece_size=PIECE)
        try:
            connection.send(pb.DaemonPacket(writing=writing))
        except UnavailableError as error:
            self._flow.stop(error)

    def piece(self, piece: pb.Piece) -> None:
        """Take a piece that the client announces.

        Raises:
            ViolationError: it isn't the one that has to come, or its slot isn't free.
        """
        if self._writing is None:
            raise ViolationError(WrongStateError("a piece came before `writing`"))
        if not 0 <= piece.slot < self._slots or piece.slot in self._busy:
            raise ViolationError(WrongStateError(f"slot {piece.slot} isn't the client's"))
        try:
            index = self._order.take(piece.offset, piece.size, last=piece.last)
        except WrongStateError as error:
            raise ViolationError(error) from error
        if piece.last:
            self._writing.expect(index + 1)
        self._busy.add(piece.slot)
        token = Token(piece.slot, index, piece.size, piece.last)
        self._connection.door.services.engine.put(self._writing, token)

    def _free(self, slot: int) -> None:
        self._busy.discard(slot)
        self._connection.send(pb.DaemonPacket(free=pb.Free(slots=[slot])))

    def _ended(self, error: SealcarError | None) -> None:
        # both ends may wait for the disk
        if error is None:
            self._connection.chore(self._sink.finish, self._finished)
            return
        failure = error
        self._connection.chore(self._sink.abort, lambda _, __: self._finished(None, failure))

    def _finished(self, value: PayloadValue | None, error: SealcarError | None) -> None:
        self._leave("write", self._order.size, error)
        connection = self._connection
        if error is not None:
            error.at(phase="write", **self._place)
        if value is not None:
            written = payloads_pb2.WriteResponse(payload=payload_message(value))
            connection.answer(pb.DaemonPacket(written=written))
        elif connection.phase is Phase.CLOSING:
            connection.settle()
        elif error is not None and (connection.cancelled or self._order.size == 0):
            connection.refuse(error)
        else:
            # pieces of it may still be on their way, and would be out of turn
            connection.close(error)
