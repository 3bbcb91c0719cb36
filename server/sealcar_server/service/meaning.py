"""Which version and generation is meant by whoever doesn't name it: what is current, and newest."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from sealcar import names
from sealcar.errors import LockedError, RolledBackError
from sealcar_server.access.policy import unknown_package

if TYPE_CHECKING:
    from sealcar_server.service.pinning import Pinning
    from sealcar_server.service.pointer import Pointers
    from sealcar_server.service.rollback import Seen, Sighting
    from sealcar_server.store.interface import Store


@dataclass(frozen=True)
class Meaning:
    """Tells; safe to share between threads.

    Attributes:
        store, seen, pointers: of the daemon.
        pins: say how old the newest generation may be.
    """

    store: Store
    seen: Seen
    pointers: Pointers
    pins: Pinning

    def version(self, name: str, version: str, *, even_locked: bool = False) -> tuple[str, int]:
        """Return a version, and how old its newest generation may be.

        Args:
            name: of the package.
            version: empty: the current one.
            even_locked: the pointer is taken by its own word if no key is there to check it.

        Raises:
            InvalidNameError: it can be no version.
            NotFoundError: none is current.
            DamagedError, KeyRefusedError, KeyUnavailableError: the pointer can't be believed.
        """
        least = 0
        if not version:
            version, least = self._claimed(name) if even_locked else self._current(name)
        return names.store_name(version, "version"), least

    def newest(self, name: str, version: str, least: int) -> int:
        """Return the number of the newest generation.

        Raises:
            NotFoundError: there is none, or it is removed right now.
            RolledBackError: it is older than `least`, than what was seen, or than is pinned.
        """
        newest, seen, leaving = self._look(name, version)
        if not newest:
            self.pointers.tombstones.refuse(name, version)
        gone = not newest and seen is not None and max(least, seen.generation) == seen.removed
        if self.store.refresh and newest < max(least, seen.generation if seen else 0) and not gone:
            # what others did may be known in part only; of what is gone nobody asks the bucket
            self.store.look_anew(name, version)
            self.pointers.departures.settle(name, version)
            newest, seen, leaving = self._look(name, version)
        least = max(least, seen.generation if seen else 0)
        if newest < max(least, 1):
            self.pointers.tombstones.refuse(name, version)
        removed = leaving or (seen is not None and seen.generation == seen.removed)
        if not newest and removed:
            raise unknown_package(name)
        if newest < least:
            raise RolledBackError(
                f"the store's newest generation is {newest}; {least} was seen before"
            )
        if not newest:
            raise unknown_package(name)
        self.pins.check(name, version, newest)
        return newest

    def _current(self, name: str) -> tuple[str, int]:
        pointer = self.pointers.current(name)
        return pointer.version, pointer.generation

    def _claimed(self, name: str) -> tuple[str, int]:
        try:
            return self._current(name)
        except LockedError:
            claimed = self.pointers.claimed(name)
            if not claimed:
                raise unknown_package(name) from None
            return claimed, 0

    def _look(self, name: str, version: str) -> tuple[int, Sighting | None, bool]:
        """Return the newest number, and what was remembered before and after the look at it.

        What is published or removed in between is no rollback.
        """
        newest, before = 0, None
        while (standing := self.seen.standing(name, version)) != before:
            before = standing
            newest = self.store.newest(name, version)
        return newest, *standing
