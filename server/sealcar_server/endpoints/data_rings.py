"""The rings of one connection: made when the budget allows, kept as long as the connection."""

from __future__ import annotations

import os
import time
from typing import TYPE_CHECKING, Protocol

from sealcar.errors import ExhaustedError, SealcarError, UnavailableError, WrongStateError
from sealcar.v1 import data_socket_pb2 as pb
from sealcar_server.endpoints.data_turns import Phase, ViolationError
from sealcar_server.sealing.layout import SEGMENT
from sealcar_server.transfer.rings import slots_for

if TYPE_CHECKING:
    from collections.abc import Iterable

    from sealcar_server.endpoints.connection import Connection
    from sealcar_server.transfer.budget import Lease, Ticket
    from sealcar_server.transfer.rings import Ring


class Waiting(Protocol):
    """What needs a ring before it can begin."""

    @property
    def client_writes(self) -> bool:
        """Which of the two rings."""

    @property
    def most_slots(self) -> int:
        """More of them are of no use."""

    def begin(self, ring: Ring) -> None:
        """The ring is there, and the client has mapped it."""

    def stop(self, reason: SealcarError) -> None:
        """There will be none."""


class RingKeeper:
    """Runs on the socket's thread, but for `lent`, which workers add to.

    Attributes:
        lent: slots of the read ring that the client holds.
    """

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self._rings: dict[bool, tuple[Ring, Lease]] = {}
        self._ticket: Ticket | None = None
        self._waiting: Waiting | None = None
        self._unacknowledged = False
        self._forgiven: set[int] = set()
        self.lent: set[int] = set()

    @property
    def count(self) -> int:
        """Rings that are shared with the client."""
        return len(self._rings)

    def get(self, waiting: Waiting) -> None:
        """Have a transfer begin as soon as its ring is there and mapped."""
        connection = self._connection
        door = connection.door
        owner = connection.peer.principal.account
        most = slots_for(door.services.budget, owner)
        slots = min(most, waiting.most_slots)
        kept = self._kept(slots, client_writes=waiting.client_writes)
        if kept is not None:
            waiting.begin(kept)
            return
        made = connection.line.has_ring(client_writes=waiting.client_writes, slots=most)
        if made and door.services.budget.has_room(owner, most * SEGMENT):
            slots = most
        self._waiting = waiting
        connection.phase = Phase.MEMORY
        asked = time.monotonic()

        def granted(lease: Lease) -> None:
            door.services.meter.spent("memory", time.monotonic() - asked)
            door.post(lambda: self._granted(lease, waiting), connection.peer.principal.account)

        self._ticket = door.services.budget.ask(owner, slots * SEGMENT, granted)
        door.shelf.make_room()

    def cancel(self) -> None:
        """Wait no longer."""
        self._waiting = None
        ticket, self._ticket = self._ticket, None
        if ticket is not None:
            ticket.cancel()

    def give_up(self) -> None:
        """Refuse the transfer that waits: there was no room in time."""
        waiting = self._waiting
        self.cancel()
        if waiting is not None:
            waiting.stop(self._connection.door.services.budget.exhausted())

    def mapped(self) -> None:
        """Take the client's word that it has mapped the ring announced last.

        Raises:
            ViolationError: none was announced.
        """
        if not self._unacknowledged:
            raise ViolationError(WrongStateError("no ring was announced"))
        self._unacknowledged = False
        waiting, self._waiting = self._waiting, None
        if waiting is not None:
            waiting.begin(self._rings[waiting.client_writes][0])

    def take_back(self, slots: Iterable[int]) -> None:
        """Take slots of the read ring back from the client.

        Raises:
            ViolationError: a slot was not lent.
        """
        back: list[int] = []
        for slot in slots:
            if slot in self._forgiven:
                self._forgiven.discard(slot)
                continue
            if slot not in self.lent:
                raise ViolationError(WrongStateError(f"slot {slot} was not lent"))
            self.lent.discard(slot)
            back.append(slot)
        operation = self._connection.operation
        if back and operation is not None:
            operation.refill(back)

    def abandon(self) -> None:
        """Take every slot back after an error, which the client may not have seen yet."""
        self._forgiven |= self.lent
        self.lent.clear()

    def new_request(self) -> None:
        """Forgive no more: what comes from now on belongs to the next request."""
        self._forgiven.clear()

    def close(self) -> None:
        """Unmap the rings and give their memory back, once the client has unmapped them too."""
        self.cancel()
        for ring, lease in self._rings.values():
            self._connection.door.outstanding.take(ring, lease)
        self._rings.clear()

    def _kept(self, slots: int, *, client_writes: bool) -> Ring | None:
        """Return the ring that is there, unless a larger one can be had now."""
        kept = self._rings.get(client_writes)
        if kept is None:
            return None
        ring, lease = kept
        budget = self._connection.door.services.budget
        # the one that is there counts until the client has unmapped it
        if ring.size >= slots * SEGMENT or not budget.has_room(lease.owner, slots * SEGMENT):
            return ring
        del self._rings[client_writes]
        self._connection.door.outstanding.take(ring, lease)
        return None

    def _granted(self, lease: Lease, waiting: Waiting) -> None:
        if self._waiting is not waiting:
            lease.close()
            return
        self._ticket = None
        try:
            ring = self._connection.line.ring(
                client_writes=waiting.client_writes, slots=lease.size // SEGMENT
            )
        except ExhaustedError as error:
            lease.close()
            self._waiting = None
            waiting.stop(error)
            return
        self._rings[ring.client_writes] = (ring, lease)
        if not ring.shared:
            self._waiting = None
            waiting.begin(ring)
            return
        try:
            self._hand_over(ring)
        except UnavailableError as error:
            self._waiting = None
            self._connection.close(error)

    def _hand_over(self, ring: Ring) -> None:
        announced = pb.Ring(slots=ring.slots, slot_size=ring.slot_size)
        packet = (
            pb.DaemonPacket(write_ring=announced)
            if ring.client_writes
            else pb.DaemonPacket(ring=announced)
        )
        descriptor = ring.take_descriptor()
        try:
            self._connection.send(packet, descriptor)
        finally:
            os.close(descriptor)
        self._unacknowledged = True
        self._connection.phase = Phase.MAPPING
        self._connection.since = time.monotonic()
