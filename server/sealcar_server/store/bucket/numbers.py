"""Which generations a bucket has of a version: looked up in a list, then followed one by one."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING

from sealcar_server.store.generation import MAX_MANIFEST

if TYPE_CHECKING:
    from sealcar_server.store.bucket.keys import Version
    from sealcar_server.store.bucket.listings import Listings
    from sealcar_server.store.bucket.small import SmallObjects


class Numbers:
    """Safe to share between threads. What it says is as old as `refresh` of its parts at most.

    Args:
        small, listings: of the bucket.
    """

    def __init__(self, small: SmallObjects, listings: Listings) -> None:
        self._small, self._listings = small, listings
        self._lock = threading.Lock()
        self._newest: dict[Version, int] = {}

    def all(self, of: Version) -> list[int]:
        """Return the numbers of the generations that are there, newest first."""
        return self._listings.version(of).numbers

    def newest(self, of: Version) -> int:
        """Return the number of the newest generation; 0 if there is none.

        Of one that is known, and is still there, only the next one is looked for.
        """
        listed = self._listings.known(of)
        if listed is not None:
            return self._note(of, max(listed.numbers, default=0))
        known = self._newest.get(of, 0)
        if known and self.has(of, known):
            while (following := self._manifest(of, known + 1)) is not None:
                if not following:
                    # removed, and so there is a newer one, or none at all
                    return self._listed(of)
                known += 1
            return self._note(of, known)
        return self._listed(of)

    def has(self, of: Version, number: int) -> bool:
        """Tell whether a generation is there."""
        return bool(self._manifest(of, number))

    def published(self, of: Version, number: int) -> None:
        """Know of a generation that was just published."""
        self._listings.forget()
        self._note(of, number)

    def changed(self, of: Version) -> None:
        """Look anew: others published, or something was removed."""
        self._listings.forget()
        with self._lock:
            number = self._newest.pop(of, 0)
        self._small.forget(of.manifest(number + 1))

    def known(self) -> dict[Version, int]:
        """Return the newest number of each version that was asked for."""
        with self._lock:
            return dict(self._newest)

    def _manifest(self, of: Version, number: int) -> bytes | None:
        return self._small.get(of.manifest(number), MAX_MANIFEST)

    def _listed(self, of: Version) -> int:
        return self._note(of, max(self.all(of), default=0))

    def _note(self, of: Version, number: int) -> int:
        with self._lock:
            if number:
                self._newest[of] = number
            else:
                self._newest.pop(of, None)
        return number
