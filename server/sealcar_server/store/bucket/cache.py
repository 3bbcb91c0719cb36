"""Local copies of objects, within a bound: what nobody reads makes room, the longest unused first.

It holds ciphertext only, each object in a file named by a hash of its key, etag and size. Of an
object that somebody reads nothing is given up. What then doesn't fit isn't kept: read through from
end to end, again and again, a payload larger than the cache would else push out each piece just
before it is wanted.
"""

from __future__ import annotations

import hashlib
import os
import threading
from collections import OrderedDict
from contextlib import suppress
from typing import TYPE_CHECKING, Protocol

from sealcar.closing import Closing
from sealcar.errors import ExhaustedError
from sealcar_server.sealing.descriptor import Descriptor
from sealcar_server.store.bucket.cache_folder import CacheFolder
from sealcar_server.store.bucket.cached import NONE, TAKEN, Cached
from sealcar_server.store.failure import storing

if TYPE_CHECKING:
    from sealcar_server.store.directory import Directory


class CacheMeter(Protocol):
    """Is told what becomes of the cache."""

    def cached(self, used: int, limit: int) -> None:
        """Say how many bytes of disk it takes now, and how many it may take."""

    def evicted(self, size: int) -> None:
        """Count bytes that made room."""

    def served(self, source: str, size: int) -> None:
        """Count bytes that were read: from the "cache", or from "memory" on their way."""

    def damaged(self) -> None:
        """Count a piece that wasn't authentic."""


class Uncounted:
    """Nobody is told."""

    def cached(self, used: int, limit: int) -> None:
        """Say nothing."""

    def evicted(self, size: int) -> None:
        """Count nothing."""

    def served(self, source: str, size: int) -> None:
        """Count nothing."""

    def damaged(self) -> None:
        """Count nothing."""


class Cache(Closing):
    """Whoever calls it holds its lock, but for making it.

    Args:
        folder: where it is; belongs to this object from now on, and is closed if this fails.
        limit: bytes of disk; 0: nothing is kept.
        meter: is told.

    Attributes:
        lock: of all state in it and around it.
        used: bytes of disk that it takes or has set aside.

    Raises:
        NotAuthenticError: others can write there, or there is something that no cache has.
        StorageError: it can't be read.
    """

    def __init__(self, folder: Directory, limit: int, meter: CacheMeter | None = None) -> None:
        self._folder, self.limit = CacheFolder(folder), limit
        self.meter: CacheMeter = meter or Uncounted()
        self.lock = threading.Condition()
        self.used = 0
        # the longest unused first; those without a file only while somebody reads them
        self._objects: OrderedDict[str, Cached] = OrderedDict()
        try:
            for cached in self._folder.adopted():
                self._objects[cached.name] = cached
                self.used += cached.room
            self._shrink(0)
        except BaseException:
            self._folder.close()
            raise
        self._tell()

    def open(self, key: str, etag: str, size: int) -> Cached:
        """Return an object's copy, which `release` has to be called for.

        Raises:
            NotAuthenticError: a link, or something else that no cache has, is in its place.
            StorageError: it can't be opened.
        """
        name = name_of(key, etag, size)
        found = self._objects.get(name) or Cached(name, size)
        if found.size != size:
            # it was there from before, and says what its name doesn't
            self._cut(found, found.room)
            found = Cached(name, size)
        found.etag = etag
        if found.file is None:
            # nobody reads it, or there was no room for a file: then there may be now
            found.users += 1
            try:
                self._open(found)
            finally:
                found.users -= 1
        self._objects[name] = found
        self._objects.move_to_end(name)
        found.users += 1
        return found

    def release(self, cached: Cached) -> None:
        """Use it no longer."""
        cached.users -= 1
        if cached.users:
            return
        file, cached.file = cached.file, None
        if file is None:
            self._objects.pop(cached.name, None)
            return
        # by this, whoever takes it over later knows what was used last
        with file as fd, suppress(OSError):
            os.utime(fd)
        file.close()

    def take_room(self, cached: Cached, first: int, count: int) -> int:
        """Set room aside for pieces of an object that is open; return for how many there is.

        Raises:
            StorageError: what has to make room can't be removed.
        """
        if cached.file is None:
            return 0
        for index in range(first, first + count):
            cost = 0 if cached.state[index] != NONE else cached.cost(index)
            if not self._shrink(cost):
                count = index - first
                break
            self.used += cost
            if cost:
                cached.state[index] = TAKEN
        self._tell()
        return count

    def give_back(self, cached: Cached, first: int, count: int) -> None:
        """Give back the room of pieces that nothing was written of."""
        for index in range(first, first + count):
            if cached.state[index] == TAKEN:
                cached.state[index] = NONE
                self.used -= cached.cost(index)
        self._tell()

    def relieve(self, size: int) -> bool:
        """Make so many bytes free on the disk, if what nobody reads has as many."""
        before = self.used
        self._evict(before - size)
        self._tell()
        return before - self.used >= size

    def close(self) -> None:
        """Close the folder; twice is fine."""
        self._folder.close()

    def _open(self, cached: Cached) -> None:
        fd = self._folder.open(cached.name)
        if fd is not None:
            cached.file = Descriptor(fd)
            if cached.placed:
                return
            # nobody knew of it: it isn't one of ours
            self._remove_file(cached)
        elif cached.placed:
            # somebody removed it
            self.used -= cached.room
            cached.clear()
        if not self._shrink(cached.extra):
            return
        try:
            with storing("the cache"):
                cached.file = Descriptor(self._folder.create(cached.name))
                with cached.file as new:
                    cached.begin(new)
        except ExhaustedError:
            self._remove_file(cached)
        except BaseException:
            self._remove_file(cached)
            raise
        else:
            cached.placed = True
            self.used += cached.extra

    def _remove_file(self, cached: Cached) -> None:
        if cached.file is not None:
            cached.file.close()
            cached.file = None
        self._folder.remove(cached.name)

    def _shrink(self, more: int) -> bool:
        """Make room for so many bytes within the limit; tell whether there is."""
        if self.used + more > self.limit:
            self._evict(self.limit - more)
        return self.used + more <= self.limit

    def _evict(self, target: int) -> None:
        """Give up what nobody reads until no more than `target` bytes are used."""
        before = self.used
        for cached in [one for one in self._objects.values() if not one.users]:
            if self.used <= target:
                break
            self._cut(cached, self.used - target)
        if self.used < before:
            self.meter.evicted(before - self.used)

    def _cut(self, cached: Cached, size: int) -> None:
        """Give up so many bytes of a copy, from its end on, or all of it."""
        first = cached.count
        while first and size > 0:
            first -= 1
            size -= cached.cost(first) if cached.state[first] else 0
        before = cached.room
        fd = self._folder.open(cached.name) if any(cached.state[:first]) else None
        if fd is None:
            self._folder.remove(cached.name)
            del self._objects[cached.name]
            self.used -= before
            return
        try:
            with storing("the cache"):
                cached.drop_from(fd, first)
        finally:
            os.close(fd)
        self.used -= before - cached.room

    def _tell(self) -> None:
        self.meter.cached(self.used, self.limit)


def name_of(key: str, etag: str, size: int) -> str:
    """Return the name of the file for an object."""
    return hashlib.sha256(f"{key}\0{etag}\0{size}".encode()).hexdigest()
