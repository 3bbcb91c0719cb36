"""The hash of a directory's content, by which shared assets are named.

For each regular file, hidden ones included, one line: the SHA-256 of its content in hexadecimal
digits, two spaces, its relative path. The lines are sorted by the bytes of the whole path; the
SHA-256 of all of them is the hash. Nothing else counts: neither empty directories nor modes, times
or owners. Links and special files can't be named so.
"""

from __future__ import annotations

import hashlib
import os
import threading
from concurrent.futures import Future, ThreadPoolExecutor
from typing import TYPE_CHECKING, Final, Protocol

from sealcar.modelpackage.errors import FileAccessError, MissingError
from sealcar.modelpackage.files import unreadable
from sealcar.modelpackage.trees import Kind, Node, open_node, walk

if TYPE_CHECKING:
    from collections.abc import Iterable

    from sealcar.modelpackage.rules import Limits

_PIECE: Final = 1 << 20
# below that, handing a file to another thread costs more than hashing it
_LARGE: Final = 256 << 10
_MOST_WORKERS: Final = 8
_WAITING: Final = 4


class Progress(Protocol):
    """Told how far a hash is. Called from any thread, but never twice at once."""

    def __call__(self, files: int, size: int) -> None:
        """Take the number of files finished, and of bytes read."""


def hash_directory(
    directory: str | os.PathLike[str],
    *,
    workers: int | None = None,
    progress: Progress | None = None,
    limits: Limits | None = None,
) -> str:
    """Return `sha256:` and the hash of what is in a directory.

    Args:
        directory: may be a link; nothing in it may be one.
        workers: threads that hash large files; as many as there are cores, up to 8, if not given.
        progress: told how far it is; what it raises ends the hash.
        limits: for the size of the tree.

    Raises:
        MissingError: it is no directory.
        SchemaError: there is something in it other than files and directories.
        FileAccessError: it can't be read.
        LimitError: it is too large or too deep.
    """
    path = os.fsdecode(directory)
    if not path:
        raise FileAccessError("a path must not be empty")
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    except (OSError, ValueError) as error:
        raise MissingError(f"{path!a} is not a directory that can be read") from error
    try:
        return hash_folder(descriptor, workers=workers, progress=progress, limits=limits)
    finally:
        os.close(descriptor)


def hash_folder(
    folder: int,
    *,
    workers: int | None = None,
    progress: Progress | None = None,
    limits: Limits | None = None,
) -> str:
    """Return the hash of what is in an open directory, as `hash_directory` does."""
    count = workers or min(os.cpu_count() or 1, _MOST_WORKERS)
    hasher = _Hasher(count, progress)
    try:
        for node in walk(folder, limits):
            hasher.add(node)
        return hasher.finish()
    finally:
        hasher.close()


def hash_of(files: Iterable[tuple[bytes, str]]) -> str:
    """Return the hash of a directory of these files: each one's relative path and SHA-256."""
    lines = hashlib.sha256()
    for path, digest in sorted(files):
        lines.update(b"%b  %b\n" % (digest.encode(), path))
    return f"sha256:{lines.hexdigest()}"


class _Hasher:
    def __init__(self, workers: int, progress: Progress | None) -> None:
        self._pool = ThreadPoolExecutor(workers) if workers > 1 else None
        # so many files are open at once
        self._room = threading.BoundedSemaphore(workers * _WAITING)
        self._digests: list[tuple[bytes, Future[str] | str]] = []
        self._buffers = threading.local()
        self._lock = threading.Lock()
        self._progress = progress
        self._files = 0
        self._size = 0
        self._ended = False

    def add(self, node: Node) -> None:
        if node.kind is Kind.FOLDER:
            return
        node.check_plain()
        descriptor = open_node(node)
        large = os.fstat(descriptor).st_size >= _LARGE
        found = self._later(descriptor) if large else self._digest(descriptor)
        self._digests.append((os.fsencode(node.path), found))

    def finish(self) -> str:
        return hash_of(
            (path, found if isinstance(found, str) else found.result())
            for path, found in self._digests
        )

    def close(self) -> None:
        self._ended = True
        if self._pool:
            self._pool.shutdown()

    def _later(self, descriptor: int) -> Future[str] | str:
        if self._pool is None:
            return self._digest(descriptor)
        self._room.acquire()
        future = self._pool.submit(self._digest, descriptor)
        future.add_done_callback(lambda _: self._room.release())
        return future

    def _digest(self, descriptor: int) -> str:
        digest = hashlib.sha256()
        buffer = self._buffer()
        try:
            while not self._ended and (size := os.readv(descriptor, [buffer])):
                digest.update(buffer[:size])
                self._tell(0, size)
        except OSError as error:
            raise unreadable(f"descriptor {descriptor}", error) from error
        finally:
            os.close(descriptor)
        self._tell(1, 0)
        return digest.hexdigest()

    def _buffer(self) -> memoryview:
        if not hasattr(self._buffers, "view"):
            self._buffers.view = memoryview(bytearray(_PIECE))
        view: memoryview = self._buffers.view
        return view

    def _tell(self, files: int, size: int) -> None:
        if self._progress is None:
            return
        with self._lock:
            self._files += files
            self._size += size
            self._progress(self._files, self._size)
