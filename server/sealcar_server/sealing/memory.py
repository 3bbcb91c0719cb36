"""Private anonymous memory for secrets: never in a core file, never in a forked child."""

from __future__ import annotations

import ctypes
import mmap
from contextlib import suppress
from typing import Final

LIBC: Final = ctypes.CDLL(None, use_errno=True)
_WIPE_ON_FORK: Final = 18  # the mmap module of Python 3.11 doesn't name it
_ADVICE: Final = (mmap.MADV_DONTDUMP, _WIPE_ON_FORK)


def private(size: int) -> mmap.mmap:
    """Return zeroed memory that core files leave out and a forked child sees as zeros."""
    memory = mmap.mmap(-1, size, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    for advice in _ADVICE:
        # a kernel built without one of them still has the other protections
        with suppress(OSError):
            memory.madvise(advice)
    return memory


def address(memory: mmap.mmap) -> int:
    """Return where the memory lies; valid as long as the map is open."""
    return ctypes.addressof(ctypes.c_char.from_buffer(memory))


def zero(at: int, size: int) -> None:
    """Overwrite with zeros, with the GIL released."""
    ctypes.memset(at, 0, size)
