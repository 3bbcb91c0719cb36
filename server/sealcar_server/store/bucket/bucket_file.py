"""One payload of a bucket, open for reading: what isn't here is fetched, ahead of who reads on."""

from __future__ import annotations

import sys
import threading
from typing import TYPE_CHECKING, Final, Protocol

from sealcar.errors import Place, StorageError, TruncatedError, WrongStateError
from sealcar_server.store.bucket.arrivals import nothing
from sealcar_server.store.bucket.cached import PIECE, THERE
from sealcar_server.store.bucket.local_bytes import copy

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable

    from sealcar.errors import SealcarError
    from sealcar_server.store.bucket.cache import CacheMeter
    from sealcar_server.store.bucket.cached import Cached

# how far before the one who reads
AHEAD: Final = 128
# a ring has so many slots
_TOGETHER: Final = 8
_NEVER: Final = sys.maxsize


class Fetching(Protocol):
    """What brings pieces; see `fetching.Fetcher`."""

    def want(
        self, file: BucketFile, index: int, then: Callable[[], None], owner: Hashable, /
    ) -> bool:
        """Tell whether a piece, or an error, is here; if not, call `then` once it is."""

    def read_on(self, file: BucketFile, /) -> None:
        """Fetch what is ahead of who reads."""

    def memory_of(self, file: BucketFile, index: int, /) -> memoryview | None:
        """Return a piece that isn't in the cache, if it is in memory."""

    def read_through(self, file: BucketFile, index: int, /) -> None:
        """Note that a file needs a piece in memory no longer."""

    def doubted(self, file: BucketFile, index: int, /) -> None:
        """Have a piece no longer."""

    def renewed(self, file: BucketFile, /) -> Cached:
        """Return the copy of what is in the bucket by now."""

    def closed(self, file: BucketFile, /) -> None:
        """Do nothing more for a file."""


class BucketFile:
    """As `SealedFile`; thread-safe.

    Args:
        key: of the object.
        cached: its copy, of which this is a user.
        fetching: brings what isn't there.
        meter: is told what is read.

    Attributes:
        errors: why pieces that were asked for didn't come.
        asked: pieces that are waited for.
        holds: pieces in memory that are kept for it.
        over: it is closed.
        last: the piece that was asked for last in order.
        ahead: pieces before this one are to be fetched, whether asked for or not.
        run: how many were fetched at a time last.
    """

    waits = True

    def __init__(self, key: str, cached: Cached, fetching: Fetching, meter: CacheMeter) -> None:
        self.key, self.cached = key, cached
        self.errors: dict[int, SealcarError] = {}
        self.asked: set[int] = set()
        self.holds: set[int] = set()
        self.over = False
        self.last, self.ahead, self.run = -1, 0, 0
        self._fetching, self._meter = fetching, meter
        self._doubted: set[int] = set()
        self._reading: set[threading.Event] = set()
        self._horizon = 0
        self._stale = False

    def size(self) -> int:
        """Return how many bytes the object has; StorageError if that can't be found out."""
        if self._stale:
            self._stale = False
            self.cached = self._fetching.renewed(self)
        return self.cached.size

    def read(self, target: memoryview, at: int, /) -> None:
        """Fill `target`; as `SealedFile`."""
        if at + len(target) > self.cached.size:
            raise TruncatedError("the sealed file ends too early", place=Place(phase="read"))
        if at == 0 and self.last < 0:
            # whoever begins looks at the end next: both are on their way then
            for index in (0, self.cached.count - 1):
                self.ready(index * PIECE, 1, nothing, self)
        done = 0
        while done < len(target):
            index, skip = divmod(at + done, PIECE)
            size = min(PIECE - skip, len(target) - done)
            self._part(index, target[done : done + size], at + done)
            done += size

    def ready(
        self, at: int, size: int, then: Callable[[], None], owner: Hashable = None, /
    ) -> bool:
        """Tell whether a segment, which is in one piece, is here; as `SealedFile`."""
        del size
        index = at // PIECE
        cached = self.cached
        if self.over or index >= cached.count:
            return True
        if index >= self._horizon:
            self._look_ahead(index)
        elif index > self.last:
            self.last = index
        return cached.state[index] == THERE or self._fetching.want(self, index, then, owner)

    def doubt(self, at: int, size: int, /) -> bool:
        """Fetch once more what wasn't authentic; as `SealedFile`."""
        del size
        if at in self._doubted or self.over:
            return False
        self._doubted.add(at)
        # the header's: it may be another object by now
        self._stale = at == 0
        self._meter.damaged()
        self._fetching.doubted(self, at // PIECE)
        return True

    def close(self) -> None:
        """Close it; what is asked for only here isn't fetched any more. Repeating it is fine."""
        if not self.over:
            self._fetching.closed(self)
            for come in list(self._reading):
                come.set()

    def _part(self, index: int, target: memoryview, at: int) -> None:
        while True:
            self._wait(index)
            if self.cached.state[index] == THERE:
                self._from_disk(target, at)
                return
            held = self._fetching.memory_of(self, index)
            if held is not None:
                skip = at - index * PIECE
                copy(held[skip : skip + len(target)], target)
                if skip + len(target) == len(held):
                    self._fetching.read_through(self, index)
                self._meter.served("memory", len(target))
                return

    def _from_disk(self, target: memoryview, at: int) -> None:
        try:
            whole = self.cached.read(target, at)
        except OSError as error:
            raise StorageError(f"the cache can't be read: {error.strerror}") from error
        if not whole:
            raise TruncatedError("the cache's file was cut", place=Place(phase="read"))
        self._meter.served("cache", len(target))

    def _wait(self, index: int) -> None:
        come = threading.Event()
        self._reading.add(come)
        # it has turns of its own: whoever waits so does for one piece at a time
        if not self.ready(index * PIECE, 1, come.set, self):
            come.wait()
        self._reading.discard(come)
        if self.over:
            raise WrongStateError("the sealed file is closed")
        error = self.errors.pop(index, None)
        if error is not None:
            raise error

    def _look_ahead(self, index: int) -> None:
        """See whether somebody reads in order: a few at a time may be asked for."""
        last, count = self.last, self.cached.count
        # whoever opens it looks at its end
        if index in {last, count - 1}:
            return
        self.last = index
        if last >= 0 and 0 < index - last <= _TOGETHER:
            self.ahead = min(count, index + AHEAD)
            self._horizon = _NEVER if self.ahead == count else index + AHEAD // 4
            self._fetching.read_on(self)
