"""Large objects on their way into a bucket: a few parts at a time, never whole in memory."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Final

from sealcar_server.store.bucket.answers import etag_of
from sealcar_server.store.bucket.connection import connect
from sealcar_server.store.bucket.local_bytes import pieces

if TYPE_CHECKING:
    from collections.abc import Iterator

    from sealcar_server.store.bucket.asking import Asking, Observer
    from sealcar_server.store.bucket.connection import Place

_RETRIES: Final = 8  # of the library, for each part
_PART: Final = 8 << 20  # bytes
_PARTS: Final = 9000  # S3 has 10,000 at most
_AT_ONCE: Final = 4  # parts in memory
_COPIED: Final = 5 << 30  # bytes that S3 copies by itself


class Uploads:
    """Sends them; safe to share between threads. It raises as `Objects` does.

    Args:
        place: where to.
        asking: how one asks.
        observer: is told of bytes.
    """

    def __init__(self, place: Place, asking: Asking, observer: Observer) -> None:
        # the library repeats single parts by itself: a whole upload isn't begun anew for one
        self._store = connect(place, retries=_RETRIES)
        self._asking, self._observer = asking, observer

    def file(self, key: str, fd: int) -> str:
        """Write a file's bytes as an object and return its etag.

        Raises:
            StorageError: the file can't be read.
        """
        size = os.fstat(fd).st_size
        step = _step(size)

        def act() -> str:
            if size <= step:
                data = b"".join(pieces(fd, size, step))
                return etag_of(self._store.put(key, data, use_multipart=False))
            return self._parts(key, pieces(fd, size, step), step)

        etag = self._asking.ask("upload", key, act)
        self._observer.moved("out", size)
        return etag

    def copy(self, source: str, key: str, size: int) -> None:
        """Have the service write an object of so many bytes once more."""
        if size <= _COPIED:
            self._asking.ask("copy", source, lambda: self._store.copy(source, key))
            return
        step = _step(size)

        def act() -> None:
            # more than the service does at once: by way of this machine
            self._parts(key, iter(self._store.get(source).stream(min_chunk_size=step)), step)

        self._asking.ask("copy", source, act)
        self._observer.moved("in", size)
        self._observer.moved("out", size)

    def _parts(self, key: str, data: Iterator[bytes], step: int) -> str:
        return etag_of(
            self._store.put(
                key, data, use_multipart=True, chunk_size=step, max_concurrency=_AT_ONCE
            )
        )


def _step(size: int) -> int:
    return max(_PART, -(-size // _PARTS))
