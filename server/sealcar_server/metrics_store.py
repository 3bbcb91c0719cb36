"""Figures of the store: counted from its files, by a thread of its own, now and then."""

from __future__ import annotations

import os
import threading
import time
from contextlib import suppress
from typing import TYPE_CHECKING, Final

import structlog
from prometheus_client import Gauge

from sealcar.closing import Closing
from sealcar.errors import DamagedError, NotFoundError, SealcarError
from sealcar_server.metrics_bucket import BucketMetrics

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from prometheus_client import CollectorRegistry

    from sealcar_server.store.interface import Store

_EVERY: Final = 60.0  # seconds between two counts
_EVERY_OF_BUCKET: Final = 900.0
_SHARE: Final = 20  # a count takes no more than one part in so many of the time
_log: Final = structlog.get_logger("sealcar.metrics")


class StoreMetrics:
    """What the store holds.

    Attributes:
        bucket: what was asked of the one that it is in.
    """

    def __init__(self, registry: CollectorRegistry) -> None:
        self.bucket: Final = BucketMetrics(registry)

        def gauge(name: str, text: str) -> Gauge:
            return Gauge(f"sealcar_store_{name}", text, registry=registry)

        self._packages = gauge(
            "packages",
            "Packages in the store; this and the next three are counted once a minute, less often "
            "if that takes long; in a bucket every 15 minutes.",
        )
        self._versions = gauge("versions", "Versions of packages.")
        self._generations = gauge("generations", "Generations of versions.")
        self._bytes = gauge("bytes", "Disk that all generations take, each file once.")
        self._free = gauge("free_bytes", "Disk that is left where the store is.")
        self._counted = gauge(
            "counted_timestamp_seconds", "When the store was last counted, in seconds since 1970."
        )

    def follow(self, path: Path) -> None:
        """Ask for the room that is left whenever somebody looks."""
        self._free.set_function(lambda: _free(path))

    def count(self, store: Store, given_up: Callable[[], bool] = lambda: False) -> None:
        """Count now; what goes away meanwhile counts or doesn't.

        Args:
            store: whose.
            given_up: asked at each package; True leaves the figures as they are.

        Raises:
            StorageError: the store can't be listed.
        """
        versions = generations = 0
        files: dict[tuple[int, int], int] = {}
        names = store.names()
        for name in names:
            if given_up():
                return
            for version in store.versions(name):
                versions += 1
                # one that is damaged has no size that could be told
                with suppress(NotFoundError, DamagedError):
                    for number in store.numbers(name, version):
                        generations += 1
                        with suppress(NotFoundError, DamagedError):
                            for file in store.usage(name, version, number):
                                files[file.device, file.inode] = file.size
        self._packages.set(len(names))
        self._versions.set(versions)
        self._generations.set(generations)
        self._bytes.set(sum(files.values()))
        self._counted.set_to_current_time()


class Counting(Closing):
    """Counts a store again and again, until it is closed.

    Args:
        figures: get the counts.
        store: whose.
    """

    def __init__(self, figures: StoreMetrics, store: Store) -> None:
        self._figures, self._store = figures, store
        self._ending = threading.Event()
        self._thread = threading.Thread(target=self._run, name="store-figures", daemon=True)
        self._thread.start()

    def close(self) -> None:
        """Count no more. Repeating it is fine."""
        self._ending.set()
        self._thread.join()

    def _run(self) -> None:
        pause = 0.0
        while not self._ending.wait(pause):
            begun = time.monotonic()
            try:
                self._figures.count(self._store, self._ending.is_set)
            except SealcarError as error:
                _log.warning("the store can't be counted", reason=error.message)
            # requests to a bucket cost money
            every = _EVERY_OF_BUCKET if self._store.refresh else _EVERY
            pause = max(every, _SHARE * (time.monotonic() - begun))


def _free(path: Path) -> float:
    try:
        found = os.statvfs(path)
    except OSError:
        return float("nan")
    return float(found.f_bavail * found.f_frsize)
