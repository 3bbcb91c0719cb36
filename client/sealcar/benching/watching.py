"""When somebody else has done with a file: the kernel tells when it was closed.

An execution provider reads its blobs by itself, and says nothing. It opens, reads and closes them;
so the last close is when all of them are in memory. Of a file that is mapped the close says
nothing: see `touching`.
"""

from __future__ import annotations

import ctypes
import os
import select
import struct
import threading
import time
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Final, Self

if TYPE_CHECKING:
    from collections.abc import Iterable

_CLOSED: Final = 0x10  # IN_CLOSE_NOWRITE
_HEADER: Final = struct.Struct("iIII")
_ROOM: Final = 1 << 16
_libc = ctypes.CDLL(None, use_errno=True)


class Closes:
    """Sees when files are closed, in a `with` block.

    Args:
        files: which; others in their folders aren't looked at.

    Attributes:
        last: seconds of the monotonic clock at which each was closed last.
        sizes: of each.
    """

    def __init__(self, files: Iterable[str]) -> None:
        self.last: dict[str, float] = {}
        self.sizes: dict[str, int] = {}
        self._files = {os.fsencode(each): each for each in files}
        self._names: dict[int, str] = {}

    def __enter__(self) -> Self:
        self._events = _libc.inotify_init1(os.O_CLOEXEC | os.O_NONBLOCK) if self._files else -1
        self._wake = os.eventfd(0)
        for raw, name in self._files.items():
            watch = _libc.inotify_add_watch(self._events, raw, _CLOSED)
            if watch >= 0:
                self._names[watch] = name
                self.sizes[name] = Path(name).stat().st_size
        self._thread = threading.Thread(target=self._listen, daemon=True)
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        os.eventfd_write(self._wake, 1)
        self._thread.join()
        os.close(self._wake)
        if self._events >= 0:
            os.close(self._events)

    @property
    def complete(self) -> float | None:
        """When the last of all files was closed; None if one wasn't."""
        return max(self.last.values()) if self.last and len(self.last) == len(self._files) else None

    def _listen(self) -> None:
        waiting = [self._wake, *([self._events] if self._events >= 0 else [])]
        while self._wake not in select.select(waiting, (), ())[0]:
            self._note(time.monotonic())
        self._note(time.monotonic())

    def _note(self, now: float) -> None:
        with suppress(BlockingIOError, OSError):
            data = os.read(self._events, _ROOM)
            at = 0
            while at < len(data):
                watch, _, _, size = _HEADER.unpack_from(data, at)
                at += _HEADER.size + size
                if watch in self._names:
                    self.last[self._names[watch]] = now
