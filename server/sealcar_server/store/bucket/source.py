"""Where objects are fetched from."""

from __future__ import annotations

from typing import Protocol


class Source(Protocol):
    """Where objects are; see `objects.Objects`."""

    def size(self, key: str) -> tuple[int, str]:
        """Return an object's size and its etag."""

    def range(self, key: str, at: int, size: int, *, etag: str) -> memoryview:
        """Return some of an object's bytes."""
