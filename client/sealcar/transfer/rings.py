"""The client's side of a ring: the memory of a few slots that the daemon handed over."""

from __future__ import annotations

import mmap
import os
from typing import TYPE_CHECKING, Self

from sealcar.errors import UnavailableError
from sealcar.transfer.descriptors import FIXED_SIZE, Exported, seals_of
from sealcar.transfer.dialling import NoSharedMemoryError

if TYPE_CHECKING:
    from sealcar.v1 import data_socket_pb2 as pb


class Slots:
    """A memory of equal slots; it is this object's from now on.

    Args:
        memory: slots times slot_size bytes.
        slots: how many.
        slot_size: bytes each.
    """

    def __init__(self, memory: mmap.mmap, slots: int, slot_size: int) -> None:
        self._map = memory
        self._map.madvise(mmap.MADV_DONTDUMP)
        with Exported(self._map) as whole:
            self._address = whole.address
        self.slots = slots
        self.slot_size = slot_size
        self._emptied: list[int] = []

    def address(self, slot: int, size: int) -> int:
        """Return where a slot begins.

        Raises:
            UnavailableError: there is no such slot, or it has less than `size` bytes.
        """
        if not (0 <= slot < self.slots and 0 <= size <= self.slot_size):
            raise UnavailableError(
                f"the daemon named {size} bytes in slot {slot}, outside its ring"
            )
        return self._address + slot * self.slot_size

    def empty(self, slot: int) -> None:
        """Note that what was in a slot isn't needed any more, and nobody was told yet."""
        self._emptied.append(slot)

    def emptied(self, *, at_least: int = 1) -> list[int]:
        """Return the slots that somebody is told of now: all of them, or none if they are few."""
        if len(self._emptied) < at_least:
            return []
        found, self._emptied = self._emptied, []
        return found

    def close(self) -> None:
        """Unmap."""
        self._map.close()


class AttachedRing(Slots):
    """Slots that the daemon handed over. `writable` rings carry writes, the others reads.

    Args:
        descriptor: stays the caller's.
        slots: as announced.
        slot_size: as announced.
        writable: map for writing too.

    Raises:
        UnavailableError: its size isn't what was announced, or could still change.
        NoSharedMemoryError: this process can't map it.
    """

    def __init__(self, descriptor: int, slots: int, slot_size: int, *, writable: bool) -> None:
        if seals_of(descriptor) & FIXED_SIZE != FIXED_SIZE:
            raise UnavailableError("the daemon's ring can still change its size; not mapped")
        size = slots * slot_size
        if not size or os.fstat(descriptor).st_size != size:
            raise UnavailableError("the daemon's ring hasn't the size that was announced")
        access = mmap.PROT_READ | (mmap.PROT_WRITE if writable else 0)
        try:
            attached = mmap.mmap(descriptor, size, prot=access)
        except (OSError, ValueError) as error:
            raise NoSharedMemoryError(f"the daemon's ring can't be mapped: {error}") from error
        super().__init__(attached, slots, slot_size)

    @classmethod
    def take(cls, descriptor: int, slots: int, slot_size: int, *, writable: bool) -> Self:
        """Attach and close the descriptor, whatever happens."""
        try:
            return cls(descriptor, slots, slot_size, writable=writable)
        finally:
            os.close(descriptor)


class Rings:
    """The rings of one connection, by whether this side writes."""

    def __init__(self) -> None:
        self._attached: dict[bool, AttachedRing] = {}

    def get(self, *, writable: bool) -> AttachedRing | None:
        """Return the one that was handed over last."""
        return self._attached.get(writable)

    def attach(self, descriptor: int, announced: pb.Ring, *, writable: bool) -> None:
        """Attach a ring in place of the one before, and close the descriptor; raises as it does."""
        old = self._attached.pop(writable, None)
        if old:
            old.close()
        self._attached[writable] = AttachedRing.take(
            descriptor, announced.slots, announced.slot_size, writable=writable
        )

    def close(self) -> None:
        """Unmap them."""
        for ring in self._attached.values():
            ring.close()
        self._attached.clear()
