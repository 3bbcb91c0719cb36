"""Objects that are elsewhere, for what fetches them: made of their keys, and as slow as told."""

from __future__ import annotations

import hashlib
import threading
import time
from typing import TYPE_CHECKING, Final

from sealcar.errors import NotAuthenticError, NotFoundError, SealcarError

if TYPE_CHECKING:
    from collections.abc import Callable

MIB: Final = 1 << 20


class FarObjects:
    """As `objects.Objects`, of which a fetcher needs two.

    Attributes:
        asked: key, offset and size of each range.
        heads: how often a size was asked for.
        trouble: is called before each answer, and may raise.
        held: requests wait while this isn't set.
    """

    def __init__(self) -> None:
        self.asked: list[tuple[str, int, int]] = []
        self.heads = 0
        self.trouble: Callable[[str, int], None] = lambda _key, _at: None
        self.held = threading.Event()
        self.held.set()
        self._objects: dict[str, tuple[bytes, str]] = {}
        self._lock = threading.Lock()
        self.together = self.most_together = 0

    def put(self, key: str, size: int, salt: str = "") -> tuple[int, str]:
        """Have an object; return its size and etag."""
        seed = hashlib.sha256(f"{key}{salt}".encode()).digest()
        data = b"".join(
            hashlib.sha256(seed + n.to_bytes(8, "big")).digest() * (MIB // 32)
            for n in range(-(-size // MIB))
        )[:size]
        return self.take(key, data)

    def take(self, key: str, data: bytes) -> tuple[int, str]:
        """Have an object of these bytes; return their size and etag."""
        etag = hashlib.sha256(data).hexdigest()
        self._objects[key] = (data, etag)
        return len(data), etag

    def content(self, key: str) -> bytes:
        """Return what an object is."""
        return self._objects[key][0]

    def size(self, key: str) -> tuple[int, str]:
        """Return its size and etag."""
        self.heads += 1
        if key not in self._objects:
            raise NotFoundError("no such object")
        data, etag = self._objects[key]
        return len(data), etag

    def range(self, key: str, at: int, size: int, *, etag: str) -> memoryview:
        """Return a part of it."""
        with self._lock:
            self.asked.append((key, at, size))
            self.together += 1
            self.most_together = max(self.most_together, self.together)
        try:
            self.held.wait(20)
            self.trouble(key, at)
            data, found = self._objects[key]
            if found != etag:
                raise NotAuthenticError("it was replaced meanwhile")
            return memoryview(data)[at : at + size]
        finally:
            with self._lock:
                self.together -= 1

    def fail(self, error: SealcarError | None) -> None:
        """Fail each request from now on; None: no longer."""

        def trouble(_key: str, _at: int) -> None:
            if error is not None:
                raise error

        self.trouble = trouble


def until(what: Callable[[], bool]) -> None:
    """Return as soon as something is so."""
    end = time.monotonic() + 10
    while not what():
        assert time.monotonic() < end, "it takes too long"
        time.sleep(0.002)
