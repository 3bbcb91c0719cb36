"""Locks that a child of fork finds open, whoever held them in the parent."""

from __future__ import annotations

import os
import threading
import weakref
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from types import TracebackType


class ForkLock:
    """A lock for state that is consistent, or worth asking for anew, at any moment of a fork."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        _all.add(self)

    def renew(self) -> None:
        """Be open again: the thread that held it doesn't exist in this process."""
        self._lock = threading.Lock()

    def __enter__(self) -> None:
        self._lock.acquire()

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._lock.release()


_all: weakref.WeakSet[ForkLock] = weakref.WeakSet()


def _after_fork() -> None:
    for lock in list(_all):
        lock.renew()


os.register_at_fork(after_in_child=_after_fork)
