"""A ring that is made before anybody asks for it.

The first use of each page of a new ring costs as much time as several pieces later, and a process
that loads one small model sees little else. While nobody has a ring there is one that waits, as
large as a ring gets, with all of its pages. It is as much of the daemon's own memory as the
workers' scratch is: the budget counts it when a client gets it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeAlias

from sealcar_server.sealing.memory import zero
from sealcar_server.transfer.rings import SLOTS, Ring

if TYPE_CHECKING:
    from collections.abc import Callable

    from sealcar.errors import SealcarError

Done: TypeAlias = "Callable[[Ring | None, SealcarError | None], None]"


class Spare:
    """One ring for a client that reads. Used by one thread.

    Args:
        chore: does something on another thread, and passes on what came of it.
    """

    def __init__(self, chore: Callable[[Callable[[], Ring], Done], None]) -> None:
        self._chore = chore
        self._ring: Ring | None = None
        self._coming = self._closed = False

    def prepare(self) -> None:
        """Have one soon, if there is none. Called while nobody has a ring."""
        if self._ring is None and not self._coming and not self._closed:
            self._coming = True
            self._chore(_made, self._came)

    def has(self, slots: int) -> bool:
        """Tell whether one for so many segments waits."""
        return self._ring is not None and slots == SLOTS

    def take(self, slots: int) -> Ring | None:
        """Return the one that waits, if it is for so many segments; the caller's from now on."""
        if not self.has(slots):
            return None
        ring, self._ring = self._ring, None
        return ring

    def close(self) -> None:
        """Have none, now and later."""
        self._closed = True
        ring, self._ring = self._ring, None
        if ring is not None:
            ring.close()

    def _came(self, ring: Ring | None, _error: SealcarError | None) -> None:
        # where there is no memory for it, there will be another time, or whoever asks is told
        self._coming = False
        self._ring = ring
        if self._closed:
            self.close()


def _made() -> Ring:
    ring = Ring.of_size(SLOTS, client_writes=False)
    zero(ring.address(0), ring.size)
    for slot in range(ring.slots):
        ring.touch(slot)
    return ring
