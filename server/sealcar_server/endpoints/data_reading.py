"""A payload on its way to a client, as its connection sees it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sealcar.errors import SealcarError, UnavailableError
from sealcar.v1 import data_socket_pb2 as pb
from sealcar_server.endpoints.data_operations import Operation
from sealcar_server.endpoints.data_turns import Phase
from sealcar_server.service.failing import place_of
from sealcar_server.transfer.engine import Token
from sealcar_server.transfer.reading import RingRead, SealedSource
from sealcar_server.transfer.rings import SLOTS, slots_of_use
from sealcar_server.transfer.spent import Lending

if TYPE_CHECKING:
    from collections.abc import Sequence

    from sealcar_server.endpoints.connection import Connection
    from sealcar_server.service.payload_source import PayloadSource
    from sealcar_server.transfer.rings import Ring


class ReadOperation(Operation):
    """A payload through the ring to the client."""

    client_writes = False

    def __init__(self, connection: Connection, opened: PayloadSource) -> None:
        super().__init__(connection, opened.permit)
        self._opened = opened
        self._source = SealedSource(opened.reader)
        self._slots = SLOTS
        self._lending = Lending(self._slots, self._source.spent)
        self._leaving = False
        self._broken_off: SealcarError | None = None

    @property
    def most_slots(self) -> int:
        """More of them are of no use."""
        return 1 if self._source.in_one else slots_of_use(self._source.count)

    @property
    def waits_for_client(self) -> bool:
        """Whether nothing can go on before the client does something."""
        lent = len(self._connection.rings.lent)
        # a client gives back several slots at once, and waits for more while it holds a few
        return lent >= self._slots or (self._leaving and lent > 0)

    def begin(self, ring: Ring) -> None:
        """Start moving bytes."""
        connection = self._connection
        connection.phase = Phase.MOVING
        self._slots = 1 if self._source.in_one else min(ring.slots, self._source.count)
        self._lending = Lending(self._slots, self._source.spent)
        engine = connection.door.services.engine
        self._flow = RingRead(self._source, ring, engine, self._announce, self._end_soon)
        self._flow.owner = connection.peer.principal.account
        try:
            connection.send(pb.DaemonPacket(reading=pb.Reading(size=self._source.size)))
        except UnavailableError as error:
            self._flow.stop(error)
            return
        engine.put(self._flow, *map(Token, range(self._slots)))

    def stop(self, reason: SealcarError) -> None:
        """End it early."""
        self._broken_off = self._broken_off or reason
        if self._leaving:
            self._ended(reason)
        else:
            super().stop(reason)

    def refill(self, slots: Sequence[int]) -> None:
        """Use slots of the read ring that the client gave back."""
        self._lending.returned(slots)
        if self._leaving:
            self._ended(None)
        elif self._flow is not None:
            self._connection.door.services.engine.put(self._flow, *map(Token, slots))

    def _announce(self, slot: int, offset: int, size: int) -> None:
        self._lending.lent(slot)
        self._connection.rings.lent.add(slot)
        # by its parts: made with names it takes twice as long
        packet = pb.DaemonPacket()
        piece = packet.piece
        piece.slot, piece.offset, piece.size = slot, offset, size
        self._connection.send(packet)

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
