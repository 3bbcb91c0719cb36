"""Which pieces are fetched next, how many by one request, and where there is room for them."""

from __future__ import annotations

import time
from collections import OrderedDict
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import structlog

from sealcar.errors import SealcarError
from sealcar_server.store.bucket.cached import PIECE, THERE

if TYPE_CHECKING:
    from collections.abc import Hashable, Iterator

    from sealcar_server.store.bucket.arrivals import Arrivals
    from sealcar_server.store.bucket.bucket_file import BucketFile
    from sealcar_server.store.bucket.cache import Cache
    from sealcar_server.store.bucket.cached import Cached

# Pieces of one request; fewer at first, so that the first one is there soon. Against a service that
# gives each connection 90 MB/s after 25 ms, 16 of 4 MiB bring seven times as much as one download.
LONGEST: Final = 4
# threads that never fetch ahead
_SPARE: Final = 2
_log: Final = structlog.get_logger("sealcar.store")


@dataclass(frozen=True)
class Job:
    """Pieces that are fetched by one request.

    Attributes:
        file: for which.
        cached: the copy of its object; in use while they are fetched.
        first: of the pieces.
        count: how many.
        kept: they go into the cache, and have room there; else memory is set aside for them.
        asked: somebody waits for them.
    """

    file: BucketFile
    cached: Cached
    first: int
    count: int
    kept: bool
    asked: bool

    @property
    def at(self) -> int:
        """Offset in the object."""
        return self.first * PIECE

    @property
    def size(self) -> int:
        """In bytes."""
        return min(self.count * PIECE, self.cached.size - self.at)


class Choosing:
    """Whoever calls it holds the lock of the cache.

    Args:
        cache: where pieces go.
        arrivals: who waits for them.
        parallel: how many jobs there can be at a time.
    """

    def __init__(self, cache: Cache, arrivals: Arrivals, parallel: int) -> None:
        self._cache, self._arrivals = cache, arrivals
        self._asked: OrderedDict[Hashable, OrderedDict[BucketFile, dict[int, float]]] = (
            OrderedDict()
        )
        self._reading_on: OrderedDict[BucketFile, None] = OrderedDict()
        self._ahead = 0
        self._most_ahead = max(1, parallel - _SPARE)

    def want(self, owner: Hashable, file: BucketFile, index: int) -> None:
        """Note that somebody waits for a piece: owners take turns, and so do the files of one."""
        files = self._asked.setdefault(owner, OrderedDict())
        files.setdefault(file, {}).setdefault(index, time.monotonic())

    def read_on(self, file: BucketFile) -> bool:
        """Note that what is ahead of a file's reader may be fetched; False: all of it is here."""
        if file.over or file.cached.whole:
            return False
        self._reading_on[file] = None
        return True

    def leave(self, file: BucketFile) -> None:
        """Fetch nothing for a file any more."""
        self._reading_on.pop(file, None)
        for owner in [owner for owner, files in self._asked.items() if file in files]:
            del self._asked[owner][file]
            if not self._asked[owner]:
                del self._asked[owner]

    def asked_before(self, when: float) -> Iterator[tuple[Cached, int]]:
        """Remove and return what is asked for since before a time of the monotonic clock."""
        for files in self._asked.values():
            for file, indices in files.items():
                for index in [index for index, since in indices.items() if since < when]:
                    del indices[index]
                    yield file.cached, index

    def next(self) -> Job | None:
        """Return what to fetch now, if anything: somebody has to call `ended` with it."""
        while self._asked:
            owner, file, index, since = self._take()
            if index < 0 or not self._needed(file.cached, index):
                continue
            job = self._job(file, index, asked=True)
            if job is None:
                # there is no memory: some is given back soon
                self.want(owner, file, index)
                self._asked[owner][file][index] = since
                return None
            return job
        return self._next_ahead()

    def ended(self, job: Job) -> None:
        """Note that a job was done."""
        self._ahead -= not job.asked

    def _take(self) -> tuple[Hashable, BucketFile, int, float]:
        owner, files = self._asked.popitem(last=False)
        file, indices = files.popitem(last=False)
        index = next(iter(indices), -1)
        since = indices.pop(index, 0.0)
        if indices:
            files[file] = indices
        if files:
            self._asked[owner] = files
        return owner, file, index, since

    def _needed(self, cached: Cached, index: int) -> bool:
        awaited = self._arrivals.is_awaited(cached, index)
        return awaited and not self._arrivals.is_coming(cached, index)

    def _next_ahead(self) -> Job | None:
        while self._reading_on and self._ahead < self._most_ahead:
            file, _ = self._reading_on.popitem(last=False)
            index = self._missing(file)
            job = self._job(file, index, asked=False) if index >= 0 else None
            if job is not None:
                self._reading_on[file] = None
                self._ahead += 1
                return job
        return None

    def _missing(self, file: BucketFile) -> int:
        return next((i for i in range(file.last + 1, file.ahead) if self._absent(file, i)), -1)

    def _absent(self, file: BucketFile, index: int) -> bool:
        here = file.cached.state[index] == THERE or index in file.holds
        return not here and not self._arrivals.is_coming(file.cached, index)

    def _job(self, file: BucketFile, first: int, *, asked: bool) -> Job | None:
        cached = file.cached
        if asked:
            file.run = min(LONGEST, max(1, 2 * file.run))
        count = 1
        while count < (file.run if asked else LONGEST) and self._goes_on(file, first + count):
            count += 1
        room = self._room(cached, first, count)
        kept = room > 0
        room = room or self._arrivals.take_memory(count, asked=asked)
        if not room:
            return None
        self._arrivals.begin(cached, first, room)
        cached.users += 1
        return Job(file, cached, first, room, kept, asked)

    def _goes_on(self, file: BucketFile, index: int) -> bool:
        cached = file.cached
        if index >= cached.count or not self._absent(file, index):
            return False
        return index < file.ahead or self._arrivals.is_awaited(cached, index)

    def _room(self, cached: Cached, first: int, count: int) -> int:
        try:
            return self._cache.take_room(cached, first, count)
        except SealcarError as error:
            _log.warning("the cache has no room", error=str(error))
            return 0
