"""The client's side of a ring: the memory of a few slots that the daemon handed over."""

from __future__ import annotations

import mmap
import os
from typing import Self

from sealcar.errors import UnavailableError
from sealcar.transfer.descriptors import FIXED_SIZE, Exported, seals_of
from sealcar.transfer.dialling import NoSharedMemoryError


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
