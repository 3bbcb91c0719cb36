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

from sealcar.errors import SealcarError
from sealcar_server.store.failure import storing

if TYPE_CHECKING:
    from collections.abc import Iterator

    from sealcar_server.store.directory import Directory

LOCK: Final = ".lock"
STAGING: Final = ".staging"


class StagingArea:
    """The staging directory of an open store."""

    def __init__(self, root: Directory) -> None:
        self._root = root

    def claim(self) -> tuple[str, Directory]:
        """Make a directory under a fresh name, locked until it is closed."""
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

    def clean(self) -> int:
        """Remove what dead processes left, unless another process is at it; return how many."""
        try:
            with self._store_lock(fcntl.LOCK_EX | fcntl.LOCK_NB), self.enter() as area:
                return sum(_remove_if_dead(area, name) for name in area.names())
        except SealcarError:
            # a store that can't be cleaned now, busy or read-only, can still be read
            return 0

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


def _remove_if_dead(area: Directory, name: str) -> bool:
    try:
        with area.enter(name) as directory, storing("locking a staging directory"):
            fcntl.flock(directory.fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
            area.remove(name)
    except SealcarError:
        return False
    return True
