"""A provider's own copy of a blob lies on huge pages, as what it copies does.

A provider that copies what it was handed, as QNN's does, touches as much new memory page by page,
and nothing else can go on meanwhile: for small pages that takes longer than decrypting the blob.
Where the system has huge pages for whoever asks, a thread asks as soon as that memory is there. It
is known by its size, and by not having been there before: private memory of no file, as large as
the blob. To ask is advice that the kernel may take; whatever else should lie there holds what it
held, and nobody's access to it changes.
"""

from __future__ import annotations

import re
import threading
import time
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple

from sealcar.closing import Closing
from sealcar.ort import runtime
from sealcar.transfer.memory import advise_huge

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

# what is smaller is copied before anybody could have asked for it
LEAST: Final = 16 << 20
# what an allocator adds, and what else may have been mapped beside
_MORE: Final = 1 << 20
# the copy begins as soon as the blob was handed over, or never
_LOOKS: Final = 12
_PAUSE: Final = 0.0002
_MAPS: Final = Path("/proc/self/maps")
_MODE: Final = Path("/sys/kernel/mm/transparent_hugepage/enabled")
_PRIVATE: Final = re.compile(rb"^([0-9a-f]+)-([0-9a-f]+) rw-p 0+ 00:00 0 *$", re.MULTILINE)


class Stretch(NamedTuple):
    """Addresses from `begin` to `end`."""

    begin: int
    end: int


class CopyAhead(Closing):
    """One blob on its way to a provider, which may copy it then.

    Args:
        allocate: gives the provider's memory for the blob.
    """

    def __init__(self, allocate: Callable[[int], int]) -> None:
        self._allocate = allocate
        self._handed_over = threading.Event()
        self._given_up = False

    def __call__(self, size: int) -> int:
        """Return the address of memory for the blob, as `allocate` does."""
        address = self._allocate(size)
        if size >= LEAST and _is_of_use():
            watch = threading.Thread(target=self._watch, args=(size,), name="copy", daemon=True)
            with suppress(RuntimeError):  # there can be no more threads
                watch.start()
        return address

    def hand_over(self) -> None:
        """Expect the copy from now on: the blob is there, and goes to the provider next."""
        self._handed_over.set()

    def close(self) -> None:
        """Expect none, unless the blob was handed over."""
        self._given_up = not self._handed_over.is_set()
        self._handed_over.set()

    def _watch(self, size: int) -> None:
        with suppress(OSError):  # a sandbox without /proc
            before = private_memory()
            self._handed_over.wait()
            for _ in range(0 if self._given_up else _LOOKS):
                for begin, end in new_in(private_memory(), before):
                    if size <= end - begin <= size + _MORE:
                        advise_huge(begin, end - begin)
                        return
                time.sleep(_PAUSE)


def private_memory() -> list[Stretch]:
    """Return where this process has memory of its own that no file and no purpose is named for.

    Raises:
        OSError: the system doesn't tell.
    """
    found = _PRIVATE.findall(_MAPS.read_bytes())
    return [Stretch(int(begin, 16), int(end, 16)) for begin, end in found]


def new_in(now: Iterable[Stretch], before: Iterable[Stretch]) -> Iterator[Stretch]:
    """Return what wasn't there before; the kernel may have made one of new and old neighbours.

    Args:
        now: in order, none of which overlap.
        before: the same.
    """
    old = list(before)
    for begin, end in now:
        at = begin
        for there in old:
            if at < there.end and there.begin < end:
                if at < there.begin:
                    yield Stretch(at, there.begin)
                at = there.end
        if at < end:
            yield Stretch(at, end)


def _is_of_use() -> bool:
    # before, nobody else runs while the runtime makes a session
    return runtime.version() >= runtime.FIRST_WITHOUT_LOCK and asked_for()


@cache
def asked_for() -> bool:
    """Tell whether huge pages go to whoever asks, and to nobody else."""
    try:
        return "[madvise]" in _MODE.read_text()
    except OSError:
        return False
