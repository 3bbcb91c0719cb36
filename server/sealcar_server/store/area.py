"""Where unfinished work lies: `.staging`, with the rule of who may clean it.

Whatever is staged is locked (flock) by its maker as long as he lives; the kernel frees the lock
when he dies. A cleaner holds the store's lock file exclusively; a maker holds it shared from making
a name until that name is locked. So a cleaner never meets a name that is made and not yet locked.
"""

from __future__ import annotations

import fcntl
import os
import secrets
from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING, Final

from sealcar.errors import SealcarError, WrongStateError
from sealcar_server.store.failure import storing
from sealcar_server.store.usage import FileUse, files_below

if TYPE_CHECKING:
    from collections.abc import Iterator

    from sealcar_server.store.directory import Directory

LOCK: Final = ".lock"
STAGING: Final = ".staging"


class StagingArea:
    """The staging directory of an open store: whatever changes the store begins here.

    Args:
        root: of the store.
        read_only: nothing begins.
    """

    def __init__(self, root: Directory, *, read_only: bool = False) -> None:
        self._root = root
        self.read_only = read_only

    def claim(self) -> tuple[str, Directory]:
        """Make a directory under a fresh name, locked until it is closed.

        Raises:
            WrongStateError: the store is read-only.
            ExhaustedError, StorageError: it can't be made.
        """
        if self.read_only:
            raise read_only()
        name = secrets.token_hex(16)
        with self._store_lock(fcntl.LOCK_SH), self.enter() as area, ExitStack() as undo:
            area.make(name)
            directory = area.enter(name)
            undo.callback(directory.close)
            with storing("locking a staging directory"):
                fcntl.flock(directory.fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
            undo.pop_all()
            return name, directory

    def enter(self) -> Directory:
        """Open the staging directory itself."""
        return self._root.enter(STAGING)

    def clean(self, *, only_look: bool = False) -> list[FileUse]:
        """Remove what dead processes left, unless another process is at it; return its files."""
        if self.read_only:
            return []
        try:
            with self._store_lock(fcntl.LOCK_EX | fcntl.LOCK_NB), self.enter() as area:
                found = [_clean(area, name, only_look=only_look) for name in area.names()]
        except SealcarError:
            # a store that can't be cleaned now, busy or not writable, can still be read
            return []
        return [file for files in found for file in files]

    @contextmanager
    def _store_lock(self, mode: int) -> Iterator[None]:
        with storing("the store's lock file"):
            fd = os.open(LOCK, os.O_RDWR | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=self._root.fd)
        try:
            with storing("locking the store"):
                fcntl.flock(fd, mode)
            yield
        finally:
            os.close(fd)


def read_only() -> WrongStateError:
    """Return the error for whatever would change a store that may only be read.

    It is the daemon's state that is in the way, whatever the policy grants.
    """
    return WrongStateError("the store is read-only: the daemon's setting store.read_only is true")


def _clean(area: Directory, name: str, *, only_look: bool) -> list[FileUse]:
    try:
        with area.enter(name) as directory, storing("locking a staging directory"):
            fcntl.flock(directory.fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
            files = list(files_below(directory))
            if not only_look:
                area.remove(name)
    except SealcarError:
        return []
    return files
