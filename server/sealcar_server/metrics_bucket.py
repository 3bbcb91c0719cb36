"""Figures of a store in a bucket: what was asked of it."""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING

from prometheus_client import Counter

if TYPE_CHECKING:
    from prometheus_client import CollectorRegistry


class BucketMetrics:
    """As `store.bucket.asking.Observer`."""

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
        # what the library looks up by its labels at every call
        self._asked, self._moved = functools.cache(requests.labels), functools.cache(size.labels)

    def asked(self, kind: str, outcome: str) -> None:
        """Count a request."""
        self._asked(kind, outcome).inc()

    def moved(self, direction: str, size: int) -> None:
        """Count bytes."""
        self._moved(direction).inc(size)
