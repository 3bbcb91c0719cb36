"""Bytes of this machine on their way to a bucket, and from it."""

from __future__ import annotations

import ctypes
import os
from typing import TYPE_CHECKING, Final

from sealcar.errors import StorageError
from sealcar.transfer.descriptors import Exported

if TYPE_CHECKING:
    from collections.abc import Iterator

    from typing_extensions import Buffer

_STEP: Final = 1 << 20


def pieces(fd: int, size: int, step: int) -> Iterator[bytes]:
    """Yield a file's bytes.

    Args:
        fd: to read it by.
        size: of the file.
        step: bytes at a time, but for the last ones.

    Raises:
        StorageError: it can't be read, or has become shorter.
    """
    at = 0
    while at < size:
        try:
            piece = os.pread(fd, min(step, size - at), at)
        except OSError as error:
            raise StorageError(f"what is uploaded can't be read: {error.strerror}") from error
        if not piece:
            raise StorageError("what is uploaded became shorter meanwhile")
        yield piece
        at += len(piece)


def copy(source: Buffer, target: memoryview) -> None:
    """Fill memory with as many bytes, a piece at a time and with the GIL released."""
    with Exported(source) as given, Exported(target, writable=True) as taken:
        for at in range(0, taken.size, _STEP):
            size = min(_STEP, taken.size - at)
            ctypes.memmove(taken.address + at, given.address + at, size)
