"""What the runtime and its providers copy lies on huge pages, as what they copy from does.

QNN copies a blob that it was handed, and its simulator the weights in there once more; the CPU
packs a copy of a matrix. Each touches as much new memory page by page, and for small pages that
takes longer than decrypting it. Where the system has huge pages for whoever asks, a thread asks as
soon as that memory is there. It is known by its size, and by not having been there before: private
memory of no file, as large as what is copied or a large part of it. It may be somebody else's who
allocates as much while the session is made. To ask is advice that the kernel may take: memory holds
what it held, nobody's access to it changes, and what is touched in part may take up to 2 MiB more.
"""

from __future__ import annotations

import errno
import re
import threading
import time
from contextlib import suppress
from functools import cache, partial
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
# a packed copy of a matrix has a few more rows: at most one for each eight
_ROWS: Final = 8
# the first copy of a blob begins as soon as that was handed over, or never
_LOOKS: Final = 12
_PAUSE: Final = 0.0002
# a look takes half a millisecond; so long a session may have other things to do than to pack
_PAUSE_MEANWHILE: Final = 0.002
_IN_VAIN: Final = 50
_LONGEST: Final = 0.004  # of a core's time: of two thousand mappings
_MAPS: Final = Path("/proc/self/maps")
_MODE: Final = Path("/sys/kernel/mm/transparent_hugepage/enabled")
# of no file, and with no name that says what it is for
_ANONYMOUS: Final = re.compile(rb"^([0-9a-f]+)-([0-9a-f]+) (...)p 0+ 00:00 0 *$", re.MULTILINE)


class Stretch(NamedTuple):
    """Addresses from `begin` to `end`."""

    begin: int
    end: int


class Lookout:
    """Looks for copies that begin from now on.

    Args:
        least: bytes of one.
        most: bytes of all of them together.

    Attributes:
        found: how many bytes were, so far.

    Raises:
        OSError: the system doesn't tell what memory there is, or that takes long.
    """

    def __init__(self, least: int, most: int) -> None:
        self._least, self._most = least, most * (_ROWS + 1) // _ROWS + _MORE
        self._known: list[Stretch] = []
        self.found = 0
        self._news()

    def look(self) -> bool:
        """Ask for huge pages where a copy has begun; tell whether there can be more copies.

        Raises:
            OSError: the system doesn't tell any more, or that takes long.
        """
        known = self._known
        for mapping in self._news():
            for begin, end in self._fitting(mapping, known):
                advise_huge(begin, end - begin)
                self.found += end - begin
        return self._most - self.found >= self._least

    def meanwhile(self, over: threading.Event) -> None:
        """Look again and again until something is over, or nothing comes for long; raises so."""
        found, in_vain = self.found, 0
        while in_vain < _IN_VAIN and not over.wait(_PAUSE_MEANWHILE) and self.look():
            in_vain = 0 if self.found > found else in_vain + 1
            found = self.found

    def _news(self) -> list[Stretch]:
        """Return the large mappings that aren't as they were at the last look."""
        begun = time.thread_time()
        known, self._known = set(self._known), private_memory()
        if time.thread_time() - begun > _LONGEST:
            raise OSError(errno.E2BIG, "to look takes too long")
        return [one for one in self._known if _size(one) >= self._least and one not in known]

    def _fitting(self, mapping: Stretch, known: Iterable[Stretch]) -> list[Stretch]:
        """Return what is new in a mapping; or all of it, if that is most of it."""
        new = list(new_in(mapping, known))
        fitting = list(filter(self._fits, new))
        # where another mapping was a moment ago, a part of a copy looks old
        if fitting or 2 * sum(map(_size, new)) < _size(mapping):
            return fitting
        return [mapping] if self._fits(mapping) else []

    def _fits(self, stretch: Stretch) -> bool:
        # the kernel makes one of neighbours, and so several copies may look like one
        return self._least <= _size(stretch) <= self._most - self.found


class CopyAhead(Closing):
    """One blob on its way to a provider, which may copy it then: whole, and large parts of it.

    Args:
        allocate: gives the provider's memory for the blob.
        over: set when no more copies of it are expected: the session is made, say.
    """

    def __init__(self, allocate: Callable[[int], int], over: threading.Event) -> None:
        self._allocate, self._over = allocate, over
        self._handed_over = threading.Event()
        self._given_up = False

    def __call__(self, size: int) -> int:
        """Return the address of memory for the blob, as `allocate` does."""
        address = self._allocate(size)
        if size >= LEAST and _is_of_use():
            _start(partial(self._watch, size))
        return address

    def hand_over(self) -> None:
        """Expect the copy from now on: the blob is there, and goes to the provider next."""
        self._handed_over.set()

    def close(self) -> None:
        """Expect none, unless the blob was handed over."""
        self._given_up = not self._handed_over.is_set()
        self._handed_over.set()

    def _watch(self, size: int) -> None:
        lookout = Lookout(LEAST, 2 * size)
        self._handed_over.wait()
        if self._given_up:
            return
        for _ in range(_LOOKS):
            lookout.look()
            time.sleep(_PAUSE)
        lookout.meanwhile(self._over)


class CopiesMeanwhile(Closing):
    """Weights that a session may pack copies of while it is made.

    Args:
        sizes: of them, in bytes.
    """

    def __init__(self, sizes: Iterable[int]) -> None:
        self._over = threading.Event()
        large = [size for size in sizes if size >= LEAST]
        if large and _is_of_use():
            _start(lambda: Lookout(min(large), sum(large)).meanwhile(self._over))

    def close(self) -> None:
        """Expect no more."""
        self._over.set()


def _size(stretch: Stretch) -> int:
    return stretch.end - stretch.begin


def private_memory() -> list[Stretch]:
    """Return where this process has memory of its own, but for stacks as far as they show.

    A stack lies above a page that nobody may touch. From glibc 2.42 on that page may be a part of
    the stack's mapping; then several stacks beside each other can look like a copy.

    Raises:
        OSError: the system doesn't tell.
    """
    found, forbidden = [], 0
    for first, last, access in _ANONYMOUS.findall(_MAPS.read_bytes()):
        begin, end = int(first, 16), int(last, 16)
        if access == b"rw-" and begin != forbidden:
            found.append(Stretch(begin, end))
        forbidden = end if access == b"---" else 0
    return found


def new_in(mapping: Stretch, before: Iterable[Stretch]) -> Iterator[Stretch]:
    """Return what wasn't there before; the kernel may have made one of new and old neighbours.

    Args:
        mapping: that there is now.
        before: what there was, in order, none of which overlap.
    """
    at, end = mapping
    for there in before:
        if at < there.end and there.begin < end:
            if at < there.begin:
                yield Stretch(at, there.begin)
            at = there.end
    if at < end:
        yield Stretch(at, end)


def _start(watch: Callable[[], None]) -> None:
    def run() -> None:
        with suppress(OSError, MemoryError):  # a sandbox without /proc, say
            watch()

    with suppress(RuntimeError):  # there can be no more threads
        threading.Thread(target=run, name="copies", daemon=True).start()


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
