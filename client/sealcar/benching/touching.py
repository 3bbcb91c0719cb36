"""What is only mapped is address space: it is there when every page of it was touched."""

from __future__ import annotations

import ctypes
import mmap
from pathlib import Path
from typing import TYPE_CHECKING, Final

from sealcar.benching.jobs import MEMORY, PREFIX

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator

# how the kernel names memory that the daemon shares, and a model's own that the runtime maps
_IN_USE: Final = ("/memfd:sealcar-segment", "/memfd:sealcar-payload")
_IN_MEMORY: Final = f"{MEMORY}/{PREFIX}"
_WORDS: Final = 6


def mapped(files: Collection[str]) -> Iterator[tuple[int, int]]:
    """Yield start and length of what this process has mapped of files and of such memory."""
    for line in Path("/proc/self/maps").read_text().splitlines():
        words = line.split(maxsplit=_WORDS - 1)
        if len(words) < _WORDS or not words[1].startswith("r"):
            continue
        if words[5] in files or words[5].startswith((*_IN_USE, _IN_MEMORY)):
            start, end = (int(each, 16) for each in words[0].split("-"))
            yield start, end - start


def touch(address: int, size: int) -> int:
    """Read a byte of every page; return how many pages.

    A map that goes on beyond the end of its file has no such pages: they aren't touched.
    """
    import numpy as np  # noqa: PLC0415  (the runtime brings it along)

    whole = memoryview((ctypes.c_ubyte * size).from_address(address))
    pages = np.frombuffer(whole, np.uint8)[:: mmap.PAGESIZE]
    int(pages.sum())
    return len(pages)
