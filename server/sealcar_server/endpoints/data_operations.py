"""Transfers as their connection sees them: one at a time, each with exactly one end."""

from __future__ import annotations

import abc
import time
from typing import TYPE_CHECKING

from sealcar.errors import SealcarError, UnavailableError, WrongStateError
from sealcar.v1 import data_socket_pb2 as pb
from sealcar.v1 import payloads_pb2
from sealcar_server.endpoints.data_turns import Phase, ViolationError
from sealcar_server.endpoints.messages import payload_message
from sealcar_server.sealing.layout import FIRST_PIECE, PIECE
from sealcar_server.service.failing import place_of
from sealcar_server.transfer.engine import Token
from sealcar_server.transfer.reading import RingRead, SealedSource
from sealcar_server.transfer.rings import SLOTS
from sealcar_server.transfer.spent import Lending
from sealcar_server.transfer.writing import PieceOrder, RingWrite

if TYPE_CHECKING:
    from collections.abc import Mapping

    from sealcar_server.access.permit import Permit
    from sealcar_server.endpoints.connection import Connection
    from sealcar_server.service.payload_source import PayloadSource
    from sealcar_server.service.values import PayloadValue
    from sealcar_server.service.writing import PayloadSink
    from sealcar_server.transfer.flow import Flow
    from sealcar_server.transfer.rings import Ring


class Operation(abc.ABC):
    """One transfer of one connection. On the socket's thread, but for what flows call."""

    client_writes: bool

    def __init__(self, connection: Connection, permit: Permit) -> None:
        self._connection = connection
        self._permit = permit
        self._flow: Flow | None = None
        self._stopped = self._renewing = False
        self._begun = time.monotonic()
        connection.operation = self
        connection.door.begun(connection.peer.principal)

    @property
    @abc.abstractmethod
    def waits_for_client(self) -> bool:
        """Whether nothing can go on before the client does something."""

    def piece(self, piece: pb.Piece) -> None:
        """Take a piece that the client announces.

        Raises:
            ViolationError: not now.
        """
        raise ViolationError(WrongStateError(f"piece at {piece.offset} without a write"))

    def refill(self, slot: int) -> None:  # noqa: B027  (only reads have a use for it)
        """Use a slot of the read ring that the client gave back."""

    def check(self) -> None:
        """End it if the client lost the right to it."""
        try:
            self._permit.check()
        except SealcarError as error:
            self.stop(error)

    def renew(self) -> None:
        """End it if its key can't be had any more. Called now and then."""
        if not self._renewing:
            self._renewing = True
            self._connection.chore(self._permit.renew, self._renewed)

    def _renewed(self, _: None, error: SealcarError | None) -> None:
        self._renewing = False
        if error is not None and self._connection.operation is self:
            self.stop(error)

    def stop(self, reason: SealcarError) -> None:
        """End it early; what is under way on other threads comes to its end first."""
        if self._flow is not None:
            self._flow.stop(reason)
        elif not self._stopped:
            self._stopped = True
            self._connection.rings.cancel()
            self._ended(reason)

    def _end_soon(self, error: SealcarError | None) -> None:
        self._connection.door.post(lambda: self._ended(error))

    @abc.abstractmethod
    def _ended(self, error: SealcarError | None) -> None:
        """Clean up and answer, now that no worker is inside any more."""

    def _leave(
        self, direction: str, size: int, error: SealcarError | None, delivery: str = ""
    ) -> None:
        connection = self._connection
        delivery = delivery or connection.line.delivery
        connection.operation = None
        connection.door.ended(connection.peer.principal)
        meter = connection.door.services.meter
        meter.transferred(direction, delivery, time.monotonic() - self._begun)
        if error is None:
            meter.moved(direction, delivery, size)


class ReadOperation(Operation):
    """A payload through the ring to the client."""

    client_writes = False

    def __init__(self, connection: Connection, opened: PayloadSource) -> None:
        super().__init__(connection, opened.permit)
        self._opened = opened
        self._source = SealedSource(opened.reader)
        self._lending = Lending(SLOTS, self._source.spent)
        self._leaving = False
        self._broken_off: SealcarError | None = None

    @property
    def waits_for_client(self) -> bool:
        """Whether nothing can go on before the client does something."""
        return bool(self._connection.rings.lent)

    def begin(self, ring: Ring) -> None:
        """Start moving bytes."""
        connection = self._connection
        connection.phase = Phase.MOVING
        slots = min(ring.slots, self._source.count)
        self._lending = Lending(slots, self._source.spent)
        self._flow = RingRead(self._source, ring, self._announce, self._end_soon)
        self._flow.owner = connection.peer.principal.uid
        try:
            connection.send(pb.DaemonPacket(reading=pb.Reading(size=self._source.size)))
        except UnavailableError as error:
            self._flow.stop(error)
            return
        for slot in range(slots):
            connection.door.services.engine.put(self._flow, Token(slot))

    def stop(self, reason: SealcarError) -> None:
        """End it early."""
        self._broken_off = self._broken_off or reason
        if self._leaving:
            self._ended(reason)
        else:
            super().stop(reason)

    def refill(self, slot: int) -> None:
        """Use a slot of the read ring that the client gave back."""
        self._lending.returned(slot)
        if self._leaving:
            self._ended(None)
        elif self._flow is not None:
            self._connection.door.services.engine.put(self._flow, Token(slot))

    def _announce(self, slot: int, offset: int, size: int) -> None:
        self._lending.lent(slot)
        self._connection.rings.lent.add(slot)
        self._connection.send(pb.DaemonPacket(piece=pb.Piece(slot=slot, offset=offset, size=size)))

    def _ended(self, error: SealcarError | None) -> None:
        # a client has what lies in its ring, but of a stream only what was sent
        if self._connection.line.delivery == "stream" and self._connection.rings.lent:
            error = error or self._broken_off
            self._leaving = error is None
            if self._leaving:
                return
        self._opened.close()
        self._source.spent.tell(self._connection.door.services.meter)
        self._leave("read", self._source.size, error)
        if error is None:
            self._connection.answer(pb.DaemonPacket(done=pb.Done(size=self._source.size)))
            return
        self._connection.rings.abandon()
        place = place_of(self._opened.scope)
        self._connection.refuse(error.at(phase="read", payload=self._opened.payload.name, **place))


class WriteOperation(Operation):
    """A payload through the ring from the client."""

    client_writes = True

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
        self._writing.owner = connection.peer.principal.uid
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
