"""The daemon's side of a ring: a few hot slots that exactly one connection shares.

Nobody can change a ring's size once its descriptor leaves, so a client's truncate can't kill the
daemon with SIGBUS. A ring that clients read can never be written by them, whatever their uid.
Nobody can take the memory of such a ring from them either; so it can be asked who still has it.
"""

from __future__ import annotations

import contextlib
import mmap
import os
from typing import TYPE_CHECKING, Final, Self

from sealcar.errors import ExhaustedError
from sealcar.transfer.descriptors import FIXED_SIZE, Exported, Seal, memory, read_only, seal
from sealcar_server.sealing.layout import SEGMENT
from sealcar_server.transfer.held import held_elsewhere

if TYPE_CHECKING:
    from collections.abc import Hashable

    from sealcar_server.transfer.budget import Budget

# counted in those of one segment each, however many segments then share one: see `of_size`
SLOTS: Final = 8
SIZE: Final = SLOTS * SEGMENT
_FEW: Final = SLOTS // 2
MANY: Final = SLOTS + 2  # pieces, which pay for all slots
_TOGETHER: Final = 2  # segments in a slot, where there are many
# as much in any case is for whole ones
_WHOLE: Final = 8 * SIZE


def slots_for(budget: Budget, owner: Hashable) -> int:
    """Return how many slots the next ring of an owner gets.

    Many who read at once keep the workers busy with one slot each, and then progress alike; few
    need more. So rings are smaller the more of the memory is taken, and many fit.
    """
    taken = budget.taken(owner)
    if budget.used + SIZE <= _WHOLE or taken <= 1 / 3:
        return SLOTS
    if taken <= 1 / 2:
        return SLOTS // 2
    return SLOTS // 4 if taken <= 3 / 4 else 1


def slots_of_use(pieces: int) -> int:
    """Return how many slots are of use to a transfer of so many pieces.

    What is small is there sooner through few: the first use of each costs both sides as much time
    as several pieces later.
    """
    if pieces <= _FEW // 2:
        return max(1, pieces)
    return _FEW if pieces < MANY else SLOTS


class Ring:
    """Slots of equal size; the descriptor for the client is handed out once.

    Args:
        client_writes: which side fills the slots.
        slots: how many.
        segments: that fit into each.
        shared: with the client. Else it is this process's alone, which fills and empties it for
            a client that can't have it.

    Attributes:
        slots: how many.
        segments: that fit into each.
        slot_size: bytes.
        size: of all of them together.

    Raises:
        ExhaustedError: the system has no memory or descriptors left.
    """

    def __init__(
        self, *, client_writes: bool, slots: int = SLOTS, segments: int = 1, shared: bool = True
    ) -> None:
        self.client_writes = client_writes
        self.slots: Final = slots
        self.segments: Final = segments
        self.slot_size: Final = segments * SEGMENT
        self.size: Final = slots * self.slot_size
        self.shared = shared
        self._touched: set[int] = set()
        self._theirs = self._watch = -1
        try:
            if shared:
                self._share()
            else:
                self._keep(mmap.mmap(-1, self.size, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS))
        except OSError as error:
            raise ExhaustedError(f"no ring could be made: {error.strerror}") from error
        with Exported(self._map, writable=True) as whole:
            self._address = whole.address

    @classmethod
    def of_size(cls, segments: int, *, client_writes: bool) -> Self:
        """Return a ring that is shared, for so many segments; raises as the class does.

        Each slot is passed to and fro by a packet, so that a large ring has fewer and larger ones.
        """
        if client_writes or segments < SLOTS:
            return cls(client_writes=client_writes, slots=segments)
        return cls(client_writes=False, slots=segments // _TOGETHER, segments=_TOGETHER)

    def _share(self) -> None:
        descriptor = memory("sealcar-ring", self.size)
        try:
            self._keep(mmap.mmap(descriptor, self.size))
            # after our own map exists: from here on no other can be made for writing
            foreign = Seal(0) if self.client_writes else Seal.FUTURE_WRITE
            seal(descriptor, FIXED_SIZE | Seal.SEAL | foreign)
            self._theirs = os.dup(descriptor) if self.client_writes else read_only(descriptor)
            self._watch = -1 if self.client_writes else read_only(descriptor)
        finally:
            os.close(descriptor)

    def _keep(self, mapped: mmap.mmap) -> None:
        mapped.madvise(mmap.MADV_DONTDUMP)
        mapped.madvise(mmap.MADV_DONTFORK)
        self._map = mapped

    def take_descriptor(self) -> int:
        """Return the client's descriptor, which the caller has to close."""
        descriptor, self._theirs = self._theirs, -1
        return descriptor

    def address(self, slot: int) -> int:
        """Return where a slot begins."""
        return self._address + slot * self.slot_size

    def room(self, slot: int, size: int) -> memoryview:
        """Return the first bytes of a slot: memory that stays as long as this view of it."""
        at = slot * self.slot_size
        return memoryview(self._map)[at : at + size]

    def touch(self, slot: int) -> bool:
        """Tell whether a slot's memory wasn't used before; it is from now on."""
        if slot in self._touched:
            return False
        self._touched.add(slot)
        return True

    @property
    def watched(self) -> int:
        """A descriptor of what a client reads; -1: there is none."""
        return self._watch

    @property
    def held(self) -> bool:
        """Whether another process has it open or mapped. Where the kernel can't say: no."""
        return self._watch >= 0 and held_elsewhere(self._watch)

    def give_up(self) -> None:
        """Unmap. A client that wrote loses the pages; one that reads has them until it unmaps."""
        if self._theirs >= 0:
            os.close(self.take_descriptor())
        if self.client_writes and not self._map.closed:
            with contextlib.suppress(OSError):
                self._map.madvise(mmap.MADV_REMOVE)
        # what is still looked at is unmapped with its last view
        with contextlib.suppress(BufferError):
            self._map.close()

    def close(self) -> None:
        """Unmap, and ask no more who has it."""
        self.give_up()
        if self._watch >= 0:
            os.close(self._watch)
            self._watch = -1

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
