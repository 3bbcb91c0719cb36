"""Memory that nobody has open or mapped any more, until it is gone.

Whoever keeps no more than a reference to it (O_PATH) isn't seen by who asks, and keeps all of it:
so its room stays counted. When it goes, the kernel tells by itself (inotify).
"""

from __future__ import annotations

import ctypes
import os
import struct
from contextlib import suppress
from typing import TYPE_CHECKING, Final, Protocol

from sealcar.closing import Closing

if TYPE_CHECKING:
    from collections.abc import Callable

_GONE: Final = 0x400  # IN_DELETE_SELF
_OVERFLOW: Final = -1
_EVENT: Final = struct.Struct("iIII")
_ROOM: Final = 1 << 16
_libc: Final = ctypes.CDLL(None, use_errno=True)


class Memory(Protocol):
    """What was handed to others."""

    @property
    def watched(self) -> int:
        """A descriptor of it; -1: there is none."""

    def close(self) -> None:
        """Have nothing of it here any more."""


class Remains(Closing):
    """Used by one thread."""

    def __init__(self) -> None:
        self._events: int = _libc.inotify_init1(os.O_CLOEXEC | os.O_NONBLOCK)
        self._then: dict[int, Callable[[], None]] = {}

    def leave(self, memory: Memory, then: Callable[[], None]) -> None:
        """Close a memory that nobody else has, and call `then` once: as soon as it is gone.

        Where the kernel can't tell, it is taken for gone.
        """
        path = f"/proc/self/fd/{memory.watched}".encode()
        number = _libc.inotify_add_watch(self._events, path, _GONE) if memory.watched >= 0 else -1
        memory.close()
        if number < 0:
            then()
            return
        self._then[number] = then
        self.look()

    def look(self) -> None:
        """Call what waits for memory that has gone. To be called now and then."""
        gone: list[int] = []
        with suppress(BlockingIOError):
            while data := os.read(self._events, _ROOM) if self._then else b"":
                gone += _numbers(data)
        # what the kernel had no room to tell can't be waited for
        for number in [*self._then] if _OVERFLOW in gone else gone:
            then = self._then.pop(number, None)
            if then is not None:
                then()

    def close(self) -> None:
        """Wait for nothing more."""
        self._then.clear()
        if self._events >= 0:
            os.close(self._events)
            self._events = -1


def _numbers(data: bytes) -> list[int]:
    found, at = [], 0
    while at < len(data):
        number, _, _, name = _EVENT.unpack_from(data, at)
        found.append(number)
        at += _EVENT.size + name
    return found
