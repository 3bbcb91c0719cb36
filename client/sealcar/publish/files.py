"""Files of a publisher, opened once: what was opened is what is checked and what is read.

A file that changes meanwhile is noticed and refused.
"""

from __future__ import annotations

import mmap
import os
import weakref
from typing import TYPE_CHECKING, Final, Protocol

from sealcar import names
from sealcar.errors import InvalidNameError, InvalidPackageError, StorageError
from sealcar.names import shown

if TYPE_CHECKING:
    from collections.abc import Iterator

CHUNK: Final = 1 << 20


class SourceFile:
    """One opened file, or a member of an opened archive.

    Args:
        fd: of the file, which this owns, or of the archive, which it doesn't.
        name: see below.
        within: where in the archive it begins, and its size.

    Attributes:
        name: relative to the tree it was opened in.
        size: when it was opened.
    """

    def __init__(self, fd: int, name: str, within: tuple[int, int] | None = None) -> None:
        self.name = name
        self._fd = fd
        self._closing = weakref.finalize(self, os.close, fd) if within is None else None
        self._state = self._look()
        self._start, self.size = within or (0, self._state[1])

    def close(self) -> None:
        """Close the file; mappings of it stay."""
        if self._closing is not None:
            self._closing()

    def chunks(self) -> Iterator[bytes]:
        """Yield all of it, in pieces of at most 1 MiB.

        Raises:
            InvalidPackageError: it changed since it was opened.
            StorageError: it can't be read.
        """
        at = 0
        while at < self.size:
            piece = self.read(min(CHUNK, self.size - at), at)
            if not piece:
                break
            at += len(piece)
            yield piece
        self.check_unchanged()

    def read(self, size: int, at: int = 0) -> bytes:
        """Return a part of it, shorter if the file has become so.

        Raises:
            StorageError: it can't be read.
        """
        try:
            return os.pread(self._fd, min(size, self.size - at), self._start + at)
        except OSError as error:
            raise StorageError(f"{shown(self.name)}: {error.strerror}") from error

    def part(self, name: str, start: int, size: int) -> SourceFile:
        """Return a member of it, which lives no longer."""
        return SourceFile(self._fd, name, (start, size))

    def map(self) -> memoryview:
        """Return all of it, mapped.

        Raises:
            StorageError: it can't be mapped.
        """
        if not self.size:
            return memoryview(b"")
        # a mapping begins at a page, a member of an archive doesn't
        before = self._start % mmap.ALLOCATIONGRANULARITY
        start, size = self._start - before, before + self.size
        try:
            mapped = mmap.mmap(self._fd, size, access=mmap.ACCESS_READ, offset=start)
        except (OSError, ValueError) as error:
            raise StorageError(f"{shown(self.name)} can't be mapped: {error}") from error
        return memoryview(mapped)[before:]

    def check_unchanged(self) -> None:
        """Check that nobody wrote to it since it was opened.

        Raises:
            InvalidPackageError: somebody did.
        """
        if self._look() != self._state:
            raise InvalidPackageError(f"{shown(self.name)} changed while it was read")

    def _look(self) -> tuple[int, int, int]:
        now = os.fstat(self._fd)
        return now.st_ino, now.st_size, now.st_mtime_ns


class Tree(Protocol):
    """A directory of a package, wherever it is."""

    def open(self, name: str) -> SourceFile:
        """Return a file, the same for the same name.

        Raises:
            InvalidPackageError: the name breaks a rule, or there is no such file.
            StorageError, ExhaustedError: it can't be opened.
        """

    def walk(self) -> Iterator[str]:
        """Yield the names of all files.

        Raises:
            InvalidPackageError: a name breaks a rule of payload names, or something is no file.
            StorageError, ExhaustedError: it can't be read.
        """


def checked_name(name: str) -> str:
    """Return a name that a file of a package may have.

    Raises:
        InvalidPackageError: it breaks a rule of payload names.
    """
    try:
        return names.payload(name)
    except InvalidNameError as error:
        raise InvalidPackageError(error.message) from error
