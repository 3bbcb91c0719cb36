"""Brings pieces of objects from a bucket into the cache, several at a time, in threads of its own.

Who waits comes first, each owner in turn; what is ahead of somebody who reads in order comes when
a thread has nothing better to do, and only into the cache. What the cache has no room for, or its
disk none, passes through memory, of which a bounded amount is used: so a cache that is too small
makes reads slower, and never fails them.
"""

from __future__ import annotations

import threading
import time
from contextlib import suppress
from typing import TYPE_CHECKING, Final

import structlog

from sealcar.closing import Closing
from sealcar.errors import (
    InternalError,
    NotAuthenticError,
    NotFoundError,
    SealcarError,
    StorageError,
    UnavailableError,
)
from sealcar_server.store.bucket.arrivals import Arrivals
from sealcar_server.store.bucket.bucket_file import BucketFile
from sealcar_server.store.bucket.cached import PIECE, THERE, require_possible
from sealcar_server.store.bucket.choosing import LONGEST, Choosing, Job
from sealcar_server.store.bucket.keeping import keep

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable

    from sealcar_server.store.bucket.arrivals import Calls
    from sealcar_server.store.bucket.cache import Cache
    from sealcar_server.store.bucket.cached import Cached
    from sealcar_server.store.bucket.source import Source

PARALLEL: Final = 16
_STOP: Final = 1.0  # seconds that requests under way are waited for at the end
_log: Final = structlog.get_logger("sealcar.store")


class Fetcher(Closing):
    """Opens objects as files; safe to share between threads.

    Args:
        source: where they are.
        cache: where they go; closed with this.
        patience: seconds after which who waits is told so if nothing comes at all.
        parallel: how many requests at a time.
    """

    def __init__(
        self, source: Source, cache: Cache, *, patience: float = 30.0, parallel: int = PARALLEL
    ) -> None:
        self._source, self._cache, self._patience = source, cache, patience
        self._lock = cache.lock
        self._arrivals = Arrivals(parallel * LONGEST * PIECE)
        self._choosing = Choosing(cache, self._arrivals, parallel)
        # of the last request, if it failed because of the bucket
        self._failure: SealcarError | None = None
        # of which there is another object by now, or none
        self._changed: set[str] = set()
        self._closing = False
        self._threads = [
            threading.Thread(target=self._run, name=f"fetch-{number}", daemon=True)
            for number in range(parallel)
        ]
        for thread in self._threads:
            thread.start()

    def open(self, key: str, size: int, etag: str) -> BucketFile:
        """Return an object, open for reading; nothing of it is fetched yet.

        Args:
            key: of it.
            size: of it.
            etag: that it has to have, unless it was found to have another one.

        Raises:
            NotFoundError: it was found to be gone, and still is.
            NotAuthenticError: no object is so large, or the cache can't be used.
            StorageError: the cache can't be used.
            UnavailableError: the daemon is stopping.
        """
        if key in self._changed:
            size, etag = self._source.size(key)
            self._changed.discard(key)
        require_possible(size)
        with self._lock:
            if self._closing:
                raise _stopping()
            cached = self._cache.open(key, etag, size)
        return BucketFile(key, cached, self, self._cache.meter)

    def want(
        self, file: BucketFile, index: int, then: Callable[[], None], owner: Hashable, /
    ) -> bool:
        """Tell whether a piece, or an error, is here; if not, call `then` once it is."""
        with self._lock:
            cached = file.cached
            if self._closing:
                file.errors[index] = _stopping()
            if file.over or index in file.errors or cached.state[index] == THERE:
                return True
            if self._arrivals.share(file, index):
                return True
            self._arrivals.expect(file, index, then)
            if not self._arrivals.is_coming(cached, index):
                self._choosing.want(owner, file, index)
                self._lock.notify()
            return False

    def read_on(self, file: BucketFile, /) -> None:
        """Fetch what is ahead of who reads."""
        with self._lock:
            if self._choosing.read_on(file):
                self._lock.notify()

    def memory_of(self, file: BucketFile, index: int, /) -> memoryview | None:
        """Return a piece that isn't in the cache, if it is in memory."""
        with self._lock:
            return self._arrivals.held(file, index)

    def read_through(self, file: BucketFile, index: int, /) -> None:
        """Note that a file needs a piece in memory no longer."""
        with self._lock:
            self._arrivals.give_up(file, index)
            self._lock.notify_all()

    def doubted(self, file: BucketFile, index: int, /) -> None:
        """Have a piece no longer."""
        with self._lock, suppress(OSError):
            self._arrivals.drop(file.cached, index)
            file.cached.forget(index)

    def renewed(self, file: BucketFile, /) -> Cached:
        """Return the copy of what is in the bucket by now; raises as `Source.size`."""
        size, etag = self._source.size(file.key)
        require_possible(size)
        with self._lock:
            if file.over or etag == file.cached.etag:
                return file.cached
            cached = self._cache.open(file.key, etag, size)
            self._leave(file)
            file.errors.clear()
            return cached

    def closed(self, file: BucketFile, /) -> None:
        """Do nothing more for a file."""
        with self._lock:
            if not file.over:
                file.over = True
                self._leave(file)
                self._lock.notify_all()

    def close(self) -> None:
        """Fetch nothing more; whoever waits is told so. Twice is fine."""
        with self._lock:
            self._closing = True
            calls = self._arrivals.fail_all(_stopping())
            self._lock.notify_all()
        _call(calls)
        end = time.monotonic() + _STOP
        for thread in self._threads:
            thread.join(max(0.0, end - time.monotonic()))
        self._cache.close()

    def _leave(self, file: BucketFile) -> None:
        self._choosing.leave(file)
        self._arrivals.leave(file)
        self._cache.release(file.cached)

    def _run(self) -> None:
        while True:
            with self._lock:
                calls: Calls = []
                while (job := self._next(calls)) is None and not calls:
                    if self._closing:
                        return
                    self._lock.wait()
            _call(calls)
            if job is not None:
                self._fetch(job)

    def _next(self, calls: Calls) -> Job | None:
        """Return what to fetch now; add to `calls` what must be called without the lock."""
        if self._closing:
            return None
        if self._failure is not None:
            # it doesn't answer: nobody waits for longer than one of them has tried
            late = time.monotonic() - self._patience
            for cached, index in self._choosing.asked_before(late):
                # what is being fetched, for somebody else, has its own end
                if not self._arrivals.is_coming(cached, index):
                    calls += self._arrivals.fail(cached, index, self._failure)
        return self._choosing.next()

    def _fetch(self, job: Job) -> None:
        cached, failure = job.cached, None
        data = memoryview(b"")
        try:
            data = self._source.range(job.file.key, job.at, job.size, etag=cached.etag)
        except SealcarError as error:
            failure = error
            if isinstance(error, NotAuthenticError | NotFoundError):
                self._changed.add(job.file.key)
        except Exception:  # noqa: BLE001  (the thread serves all: a defect costs one request)
            _log.exception("a request to the bucket failed unexpectedly")
            failure = InternalError("a defect; the daemon's log has more")
        kept = failure is None and job.kept and keep(self._cache, job, data)
        with self._lock:
            self._failure = failure if isinstance(failure, StorageError) else None
            calls: Calls = []
            if not job.kept:
                self._arrivals.pay(job.count)
            elif failure is not None:
                self._cache.give_back(cached, job.first, job.count)
            for index in range(job.first, job.first + job.count):
                skip = (index - job.first) * PIECE
                if failure is not None:
                    calls += self._arrivals.fail(cached, index, failure)
                elif kept:
                    cached.state[index] = THERE
                    calls += self._arrivals.come(cached, index)
                else:
                    piece = data[skip : skip + PIECE]
                    calls += self._arrivals.hold(job.file, cached, index, piece)
            self._choosing.ended(job)
            self._cache.release(cached)
            self._lock.notify_all()
        _call(calls)


def _call(calls: Calls) -> None:
    for call in calls:
        call()


def _stopping() -> UnavailableError:
    return UnavailableError("the daemon is stopping", retry_after=1.0)
