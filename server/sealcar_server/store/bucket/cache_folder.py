"""The directory of a cache: nobody else writes there, and nothing else is in it."""

from __future__ import annotations

import os
import re
import stat
from typing import TYPE_CHECKING, Final

from sealcar.closing import Closing
from sealcar.errors import NotAuthenticError, NotFoundError
from sealcar.names import shown
from sealcar_server.store.bucket.cached import Cached, size_in
from sealcar_server.store.failure import storing

if TYPE_CHECKING:
    from sealcar_server.store.directory import Directory

_NAME: Final = re.compile(r"[0-9a-f]{64}")
_OPEN: Final = os.O_RDWR | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK | os.O_NOCTTY
_CALLED: Final = "a file of the cache"


class CacheFolder(Closing):
    """Every file in it is named by a hash and the daemon's own.

    Args:
        folder: belongs to this object from now on, and is closed if this fails.

    Raises:
        NotAuthenticError: others can write there.
        StorageError: it can't be read.
    """

    def __init__(self, folder: Directory) -> None:
        self._folder = folder
        try:
            with storing("the cache"):
                _refuse_shared(os.fstat(folder.fd))
        except BaseException:
            folder.close()
            raise

    def adopted(self) -> list[Cached]:
        """Return what is there from before, the longest unused first; what is damaged is removed.

        Raises:
            NotAuthenticError: there is something that no cache has.
            StorageError: it can't be read.
        """
        found: list[tuple[int, Cached]] = []
        for name in self._folder.names():
            with storing(_CALLED):
                status = os.stat(name, dir_fd=self._folder.fd, follow_symlinks=False)
            _refuse_strange(status, name)
            cached = self._adopted(name)
            if cached is None:
                self.remove(name)
            else:
                found.append((status.st_mtime_ns, cached))
        return [cached for _, cached in sorted(found, key=lambda one: one[0])]

    def open(self, name: str) -> int | None:
        """Return a descriptor of a file; None if there is none.

        Raises:
            NotAuthenticError: something else is in its place.
            StorageError: it can't be opened.
        """
        try:
            with storing(_CALLED):
                fd = os.open(name, _OPEN, dir_fd=self._folder.fd)
        except NotFoundError:
            return None
        try:
            with storing(_CALLED):
                _refuse_strange(os.fstat(fd), name)
        except BaseException:
            os.close(fd)
            raise
        return fd

    def create(self, name: str) -> int:
        """Return a descriptor of a new file; ExhaustedError if the disk is full."""
        return self._folder.create_file(name)

    def remove(self, name: str) -> None:
        """Remove a file; fine if it is gone."""
        self._folder.remove(name)

    def close(self) -> None:
        """Close the directory; twice is fine."""
        self._folder.close()

    def _adopted(self, name: str) -> Cached | None:
        fd = self.open(name)
        if fd is None:
            return None
        try:
            with storing(_CALLED):
                size = size_in(fd)
                if size is None:
                    return None
                cached = Cached(name, size)
                cached.adopt(fd)
        finally:
            os.close(fd)
        return cached


def _refuse_shared(status: os.stat_result) -> None:
    if status.st_uid != os.geteuid() or status.st_mode & 0o022:
        raise NotAuthenticError(
            "others can write to the cache's directory: make it the daemon's own, mode 0700"
        )


def _refuse_strange(status: os.stat_result, name: str) -> None:
    if (
        not _NAME.fullmatch(name)
        or not stat.S_ISREG(status.st_mode)
        or status.st_uid != os.geteuid()
        or status.st_nlink != 1
        or status.st_mode & 0o077
    ):
        raise NotAuthenticError(
            f"{shown(name)} is no file of a cache: empty its directory, and keep nothing else there"
        )
