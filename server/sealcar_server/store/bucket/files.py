"""Payloads of a bucket as files of this machine."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Final, Protocol

from sealcar_server.store.failure import storing

if TYPE_CHECKING:
    from sealcar_server.sealing.sealed_file import SealedFile
    from sealcar_server.store.bucket.objects import Objects

_STEP: Final = 8 << 20  # bytes


class Files(Protocol):
    """Opens payloads."""

    def open(self, key: str, size: int, etag: str) -> SealedFile:
        """Return a payload's ciphertext, which the caller closes.

        Args:
            key: of its object.
            size: of it.
            etag: that it has to have whenever some of it is fetched.
        """

    def close(self) -> None:
        """Open nothing any more; twice is fine."""


def fetch(objects: Objects, key: str, fd: int) -> None:
    """Write all of an object to a new file.

    Raises:
        NotFoundError: there is none.
        NotAuthenticError: it is replaced meanwhile.
        ExhaustedError, StorageError: it can't be read, or not be written.
    """
    size, etag = objects.size(key)
    buffer = memoryview(bytearray(min(_STEP, size)))
    at = 0
    while at < size:
        piece = buffer[: min(_STEP, size - at)]
        objects.read_range(key, at, piece, etag=etag)
        with storing("a copy of a payload"):
            done = 0
            while done < len(piece):
                done += os.pwrite(fd, piece[done:], at + done)
        at += len(piece)
