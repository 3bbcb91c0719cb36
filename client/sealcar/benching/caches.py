"""Files in the page cache, or out of it; and whether that worked."""

from __future__ import annotations

import ctypes
import mmap
import os
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Final

from sealcar.transfer.descriptors import Exported

if TYPE_CHECKING:
    from collections.abc import Iterable

_SPARE: Final = 300 << 20
_HUGE: Final = 2 << 20
_libc = ctypes.CDLL(None, use_errno=True)
_libc.mincore.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_void_p]


def below(folder: Path) -> list[Path]:
    """Return all files below a folder."""
    return [each for each in folder.rglob("*") if each.is_file() and not each.is_symlink()]


def warm(files: Iterable[Path]) -> None:
    """Have files in the page cache."""
    for path in files:
        if cached(path) < 1:
            with path.open("rb", buffering=0) as file:
                while file.read(1 << 20):
                    pass


def drop(files: Iterable[Path]) -> float:
    """Have files out of the page cache; return the largest part of one that stayed in it."""
    stayed = 0.0
    for path in files:
        if not path.stat().st_size:
            continue
        with path.open("rb", buffering=0) as file:
            with suppress(OSError):  # what isn't written yet can't be dropped
                os.fsync(file.fileno())
            os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
        stayed = max(stayed, cached(path))
    return stayed


def cached(path: Path) -> float:
    """Return which part of a file is in the page cache, from 0 to 1."""
    size = path.stat().st_size
    if not size:
        return 1.0
    pages = -(-size // mmap.PAGESIZE)
    found = ctypes.create_string_buffer(pages)
    with (
        path.open("rb") as file,
        mmap.mmap(file.fileno(), size, flags=mmap.MAP_PRIVATE) as memory,
        Exported(memory) as mapped,
    ):
        if _libc.mincore(mapped.address, size, found):
            return 1.0
    return sum(each & 1 for each in found.raw) / pages


def touch_free_memory(most: int) -> None:
    """Touch free memory: a virtual machine's host may have taken it, and has to give it again."""
    lines = Path("/proc/meminfo").read_text().splitlines()
    free = next(int(line.split()[1]) << 10 for line in lines if line.startswith("MemFree"))
    size = min(most, free - _SPARE) // _HUGE * _HUGE
    if size <= 0:
        return
    with mmap.mmap(-1, size, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS) as memory:
        memory.madvise(mmap.MADV_HUGEPAGE)
        with Exported(memory, writable=True) as mapped:
            ctypes.memset(mapped.address, 1, size)
