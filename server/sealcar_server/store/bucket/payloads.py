"""Where the payloads of generations lie, and what is known of their objects."""

from __future__ import annotations

import threading
from collections import OrderedDict
from typing import TYPE_CHECKING, Final

from sealcar.errors import NotFoundError
from sealcar.names import shown
from sealcar_server.store.bucket import references
from sealcar_server.store.generation import MAX_MANIFEST

if TYPE_CHECKING:
    from collections.abc import Mapping

    from sealcar_server.store.bucket.keys import Version
    from sealcar_server.store.bucket.listings import Listings
    from sealcar_server.store.bucket.objects import Objects
    from sealcar_server.store.bucket.small import SmallObjects

_MAPS: Final = 256
_OBJECTS: Final = 65_536


class Payloads:
    """Finds them; safe to share between threads. What is found is remembered: nothing changes it.

    Args:
        objects, small, listings: of the bucket.
    """

    def __init__(self, objects: Objects, small: SmallObjects, listings: Listings) -> None:
        self._objects, self._small, self._listings = objects, small, listings
        self._lock = threading.Lock()
        self._maps: OrderedDict[tuple[str, str], Mapping[str, str]] = OrderedDict()
        self._seen: OrderedDict[str, tuple[int, str]] = OrderedDict()

    def of(self, version: Version, number: int) -> Mapping[str, str]:
        """Return the ids of a generation's payloads by their paths in it.

        Raises:
            NotFoundError: the generation, or its references, aren't there.
            NotAuthenticError, UnknownFormatError: they aren't what a store writes.
            StorageError: the bucket can't be reached.
        """
        manifest = self._small.kept(version.manifest(number), MAX_MANIFEST)
        if not manifest.data:
            raise NotFoundError(f"no generation {number}")
        known = (version.manifest(number), manifest.etag)
        with self._lock:
            found = self._maps.get(known)
            if found is not None:
                self._maps.move_to_end(known)
                return found
        found = references.parse(self._references(version, number, manifest.data))
        with self._lock:
            self._maps[known] = found
            while len(self._maps) > _MAPS:
                self._maps.popitem(last=False)
        return found

    def ident(self, version: Version, number: int, path: str) -> str:
        """Return the id of a payload by its path; raises as `of` does, also if it is in none."""
        found = self.of(version, number).get(path)
        if found is None:
            raise NotFoundError(f"{shown(path)} doesn't exist")
        return found

    def object(self, key: str) -> tuple[int, str]:
        """Return the size of a payload's object and its etag; NotFoundError if there is none."""
        with self._lock:
            found = self._seen.get(key)
            if found is not None:
                self._seen.move_to_end(key)
                return found
        found = self._objects.size(key)
        with self._lock:
            self._seen[key] = found
            while len(self._seen) > _OBJECTS:
                self._seen.popitem(last=False)
        return found

    def forget(self, key: str) -> None:
        """Look at an object anew the next time: it isn't what it was, or is removed."""
        with self._lock:
            self._seen.pop(key, None)

    def require(self, version: Version, ident: str) -> None:
        """Make sure that a payload is there; NotFoundError if it isn't."""
        if ident not in self._listings.version(version).payloads:
            self.object(version.payload(ident))

    def _references(self, version: Version, number: int, manifest: bytes) -> bytes:
        key = version.references(number, manifest)
        data = self._small.kept(key, references.MOST).data
        if data is not None:
            return data
        # the manifest was edited since: then its references are the only ones beside it
        beside = self._listings.now(version).references.get(number, [])
        if len(beside) == 1:
            data = self._small.kept(beside[0].key, references.MOST).data
        if data is None:
            raise NotFoundError(f"the references of generation {number} don't exist")
        return data
