"""Quotas: how much of the store packages may take, all together.

What lies in the store is counted from its files, each once, however many names it has. What is
being written is reserved: as far as its size was declared, before a byte of it comes. So nothing
has to be remembered over a restart, and whatever removes files makes room.
"""

from __future__ import annotations

import threading
import time
from collections import Counter
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from sealcar.closing import Closing
from sealcar.errors import DamagedError, ExhaustedError, NotFoundError

if TYPE_CHECKING:
    from sealcar_server.access.bounds import Bounds, Quota
    from sealcar_server.store.interface import Store

_FRESH: Final = 30.0  # seconds that a count is believed, since others may change the store too
_AGAIN: Final = 1.0  # seconds between two counts that somebody over his quota causes


@dataclass(frozen=True)
class _Count:
    size: int
    at: float
    published: int


class Quotas:
    """Safe to share between threads.

    Args:
        store: whose files count.
        bounds: says which quotas there are.
    """

    def __init__(self, store: Store, bounds: Bounds) -> None:
        self._store, self._bounds = store, bounds
        self._lock = threading.Lock()
        self._counting = threading.Lock()
        self._counts: dict[Quota, _Count] = {}
        self._reserved: Counter[str] = Counter()
        self._published: Counter[str] = Counter()

    def claim(self, package: str) -> Claim:
        """Begin to write something of a package; whoever asked closes it.

        Raises:
            StorageError: the store can't be read.
        """
        for quota in self._bounds.quotas(package):
            self._count(quota, _FRESH)
        return Claim(self, package)

    def take(self, package: str, size: int) -> None:
        """Reserve bytes.

        Raises:
            ExhaustedError: a quota hasn't so many left.
            StorageError: the store can't be read.
        """
        quotas = self._bounds.quotas(package)
        for quota in quotas:
            if quota not in self._counts:
                self._count(quota, _FRESH)
        with self._lock:
            over = self._over(quotas, size)
            if over is None:
                self._reserved[package] += size
                return
        # what was removed meanwhile counts no more
        self._count(over, _AGAIN)
        with self._lock:
            over = self._over(quotas, size)
            if over is not None:
                raise _exhausted(over)
            self._reserved[package] += size

    def give_back(self, package: str, size: int, *, published: bool) -> None:
        """Reserve them no longer: they are thrown away, or lie in the store."""
        with self._lock:
            self._reserved[package] -= size
            if not self._reserved[package]:
                del self._reserved[package]
            if published and self._counts:
                self._published[package] += size

    def _over(self, quotas: tuple[Quota, ...], size: int) -> Quota | None:
        for quota in quotas:
            count = self._counts[quota]
            used = count.size - count.published
            used += self._sum(self._published, quota) + self._sum(self._reserved, quota)
            if used + size > quota.size:
                return quota
        return None

    @staticmethod
    def _sum(sizes: Counter[str], quota: Quota) -> int:
        return sum(size for package, size in sizes.items() if quota.is_about(package))

    def _count(self, quota: Quota, fresh: float) -> None:
        """Count a quota's files, unless that was done lately."""
        with self._counting:
            known = self._counts.get(quota)
            now = time.monotonic()
            if known is not None and now - known.at < fresh:
                return
            with self._lock:
                # what is published while files are counted is perhaps counted twice, never not
                before = self._sum(self._published, quota)
            size = self._files(quota)
            with self._lock:
                self._counts[quota] = _Count(size, now, before)

    def _files(self, quota: Quota) -> int:
        files: dict[tuple[int, int], int] = {}
        for name in self._store.names():
            if not quota.is_about(name):
                continue
            for version in self._store.versions(name):
                # what is removed meanwhile, or damaged, has no size that could be told
                with suppress(NotFoundError, DamagedError):
                    for number in self._store.numbers(name, version):
                        with suppress(NotFoundError, DamagedError):
                            for file in self._store.usage(name, version, number):
                                files[file.device, file.inode] = file.size
        return sum(files.values())


class Claim(Closing):
    """What one writer has reserved. For one thread at a time, but for `take`."""

    def __init__(self, quotas: Quotas, package: str) -> None:
        self._quotas, self._package = quotas, package
        self._lock = threading.Lock()
        self._size = 0
        self._closed = self._published = False

    def take(self, size: int) -> None:
        """Reserve more; raises as `Quotas.take`."""
        self._quotas.take(self._package, size)
        with self._lock:
            if not self._closed:
                self._size += size
                return
        self._quotas.give_back(self._package, size, published=False)

    def give_back(self, size: int) -> None:
        """Reserve less: it was thrown away."""
        with self._lock:
            size = min(size, self._size)
            self._size -= size
        self._quotas.give_back(self._package, size, published=False)

    def published(self) -> None:
        """Note that all of it lies in the store, as its files say from now on."""
        self._published = True

    def close(self) -> None:
        """Reserve nothing any more. Repeating it is fine."""
        with self._lock:
            size, self._size, self._closed = self._size, 0, True
        self._quotas.give_back(self._package, size, published=self._published)


class Portion:
    """What one payload has reserved of a claim. Thread-safe.

    Args:
        claim: of its writer.
        size: bytes of its file, if they are known: reserved now. Else it is as they come.

    Raises:
        ExhaustedError: a quota hasn't so many left.
        StorageError: the store can't be read.
    """

    def __init__(self, claim: Claim, size: int = 0) -> None:
        claim.take(size)
        self._claim = claim
        self._lock = threading.Lock()
        self._reserved = size
        self._written = 0

    def write(self, size: int) -> None:
        """Account for bytes that are about to be written; raises as the portion does."""
        with self._lock:
            more = max(0, self._written + size - self._reserved)
            if more:
                self._claim.take(more)
            self._written += size
            self._reserved += more

    def drop(self) -> None:
        """Give all of it back: the file is gone. Repeating it is fine."""
        with self._lock:
            size, self._reserved = self._reserved, 0
        self._claim.give_back(size)


def _exhausted(quota: Quota) -> ExhaustedError:
    names = ", ".join(quota.packages)
    return ExhaustedError(
        f"a quota of the policy gives {names} {quota.size} bytes of the store, and that would be "
        "more: remove versions or prune generations, or have an operator raise it"
    )
