"""Opens files so that no link is followed between the check of a path and its use.

A path is first resolved, links and all, and judged. What is opened is the resolved path, part by
part, each relative to the directory before it and none of them through a link: whoever puts a link
into its place meanwhile gets an error instead of the file he points at.
"""

from __future__ import annotations

import os
import stat
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final

from sealcar.modelpackage.errors import FileAccessError, SchemaError

if TYPE_CHECKING:
    from collections.abc import Iterator

_FOLDER: Final = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
# a FIFO must not be waited for
_FILE: Final = os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK | os.O_NOCTTY


def open_folder(path: str, within: int | None = None) -> int:
    """Open a directory; every part of the path is one itself, no link.

    Args:
        path: absolute, or relative to `within`.
        within: descriptor of a directory.

    Raises:
        OSError: it isn't there, or there is a link.
    """
    parts = [part for part in path.split("/") if part not in ("", ".")]
    current = os.open("/" if within is None else ".", _FOLDER, dir_fd=within)
    for part in parts:
        try:
            following = os.open(part, _FOLDER, dir_fd=current)
        finally:
            os.close(current)
        current = following
    return current


@contextmanager
def folder(path: str, within: int | None = None) -> Iterator[int]:
    """Open a directory as `open_folder` does, and close it in the end."""
    descriptor = open_folder(path, within)
    try:
        yield descriptor
    finally:
        os.close(descriptor)


def open_regular(path: str) -> int:
    """Open a regular file for reading, no part of whose path is a link.

    Raises:
        FileAccessError: it can't be opened, or isn't a regular file.
    """
    descriptor = _open(path, _FILE | os.O_NOFOLLOW)
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        os.close(descriptor)
        raise FileAccessError("is not a regular file", where=path)
    return descriptor


def _open(path: str, flags: int) -> int:
    above, _, name = path.rpartition("/")
    try:
        with folder(above) as directory:
            return os.open(name, flags, dir_fd=directory)
    except OSError as error:
        raise unreadable(path, error) from error
    except ValueError as error:
        raise FileAccessError(f"can't be read: {error}", where=ascii(path)) from error


def read_document(path: str, limit: int, *, may_be_link: bool = False) -> bytes:
    """Read a JSON file, up to one byte more than the limit.

    Args:
        path: resolved before; no part of it is a link.
        limit: bytes that it may have.
        may_be_link: the last part may be one, to anywhere: the format allows it for the manifest
            and for `component.json`.

    Raises:
        FileAccessError: it can't be read, or isn't a regular file.
        SchemaError: it is a directory.
    """
    descriptor = _open(path, _FILE if may_be_link else _FILE | os.O_NOFOLLOW)
    try:
        found = os.fstat(descriptor)
        if stat.S_ISDIR(found.st_mode):
            raise SchemaError("invalid JSON: it is a directory", where=path)
        if not stat.S_ISREG(found.st_mode):
            raise FileAccessError("is not a regular file", where=path)
        return _read(descriptor, min(found.st_size, limit) + 1)
    except OSError as error:
        raise unreadable(path, error) from error
    finally:
        os.close(descriptor)


def _read(descriptor: int, size: int) -> bytes:
    data = bytearray()
    while len(data) < size and (piece := os.read(descriptor, size - len(data))):
        data += piece
    return bytes(data)


def unreadable(path: str, error: OSError) -> FileAccessError:
    """Return the error of this package for one of the operating system."""
    return FileAccessError(f"can't be read: {error.strerror}", where=path)
