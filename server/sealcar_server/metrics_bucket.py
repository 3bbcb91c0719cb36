"""Figures of a store in a bucket: what was asked of it, and of the copies on this machine."""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING

from prometheus_client import Counter, Gauge

if TYPE_CHECKING:
    from prometheus_client import CollectorRegistry


class BucketMetrics:
    """As `store.bucket.asking.Observer` and `store.bucket.cache.CacheMeter`."""

    def __init__(self, registry: CollectorRegistry) -> None:
        requests = Counter(
            "sealcar_bucket_requests",
            "Requests to the store's bucket by kind (read, range, head, list, create, replace, "
            "write, upload, copy, remove) and outcome: ok, absent, conflict (another daemon was "
            "faster), again (it failed and is repeated), failed. An upload in parts is one.",
            ["kind", "outcome"],
            registry=registry,
        )
        size = Counter(
            "sealcar_bucket_bytes",
            "Bytes of objects that came in from the store's bucket, or went out to it.",
            ["direction"],
            registry=registry,
        )
        self._used = Gauge(
            "sealcar_cache_bytes",
            "Disk that copies of payloads in the store's bucket take here.",
            registry=registry,
        )
        self._limit = Gauge(
            "sealcar_cache_limit_bytes", "Disk that they may take.", registry=registry
        )
        self._evicted = Counter(
            "sealcar_cache_evicted_bytes", "Bytes of copies that made room.", registry=registry
        )
        served = Counter(
            "sealcar_cache_served_bytes",
            "Bytes of payloads in the bucket that were read: from the cache, or from memory on "
            "their way, because the cache had no room.",
            ["source"],
            registry=registry,
        )
        self._damaged = Counter(
            "sealcar_cache_damaged",
            "Pieces that weren't authentic, and were fetched once more; alert on a rise: the disk "
            "fails, or somebody writes to the cache.",
            registry=registry,
        )
        self._served = functools.cache(served.labels)
        # what the library looks up by its labels at every call
        self._asked, self._moved = functools.cache(requests.labels), functools.cache(size.labels)

    def asked(self, kind: str, outcome: str) -> None:
        """Count a request."""
        self._asked(kind, outcome).inc()

    def moved(self, direction: str, size: int) -> None:
        """Count bytes."""
        self._moved(direction).inc(size)

    def cached(self, used: int, limit: int) -> None:
        """Record how much disk the copies take, and may take."""
        self._used.set(used)
        self._limit.set(limit)

    def evicted(self, size: int) -> None:
        """Count bytes that made room."""
        self._evicted.inc(size)

    def served(self, source: str, size: int) -> None:
        """Count bytes that were read from the "cache" or from "memory"."""
        self._served(source).inc(size)

    def damaged(self) -> None:
        """Count a piece that wasn't authentic."""
        self._damaged.inc()
