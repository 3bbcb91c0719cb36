"""A payload that native code may begin to read while the rest of it still comes.

Pieces come into pages beside, and a huge page that is whole is moved to its place, which costs no
copy. Nothing is there before it is authentic, and of what doesn't come a reader sees zeros: so
whoever lets it be read has to ask afterwards whether all of it came.
"""

from __future__ import annotations

import errno
import mmap
import resource
from typing import TYPE_CHECKING, Final

from sealcar.closing import Closing
from sealcar.errors import ExhaustedError, WrongStateError
from sealcar.transfer.descriptors import Exported
from sealcar.transfer.memory import give_back, protect
from sealcar.transfer.userfaults import MissingPages

if TYPE_CHECKING:
    from collections.abc import Callable

    from sealcar.transfer.payloads import PayloadReader

_HUGE: Final = 2 << 20
# less than this comes sooner than it could be set up
LEAST: Final = 2 * _HUGE


class _Room:
    """Private memory on huge pages, which begins with one."""

    def __init__(self, size: int) -> None:
        self.size = -(-size // _HUGE) * _HUGE
        self.map = mmap.mmap(-1, self.size + _HUGE, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
        for advice in (mmap.MADV_DONTDUMP, mmap.MADV_HUGEPAGE):
            self.map.madvise(advice)
        with Exported(self.map) as whole:
            self.address = -(-whole.address // _HUGE) * _HUGE
            self.skipped = self.address - whole.address


class ArrivingMemory(Closing):
    """Room for one payload; `fill` brings it.

    Args:
        size: of the payload, at least LEAST.

    Attributes:
        size: of the payload.

    Raises:
        OSError: this can't be had here.
    """

    def __init__(self, size: int) -> None:
        self.size = size
        if resource.getrlimit(resource.RLIMIT_AS)[0] != resource.RLIM_INFINITY:
            raise OSError(errno.ENOMEM, "addresses are limited, and this takes two for each byte")
        self._room, self._beside = _Room(size), _Room(size)
        self._left = [min(_HUGE, size - at) for at in range(0, size, _HUGE)]
        self._missing = MissingPages(self._room.address, self._room.size)

    def view(self) -> memoryview:
        """Return a read-only view, which keeps the memory alive.

        Until `fill` has returned, only native code may read through it that holds no interpreter
        lock and hands no byte of it to a system call.
        """
        first = self._room.skipped
        return memoryview(self._room.map)[first : first + self.size].toreadonly()

    def fill(self, bring: Callable[[int, Callable[[int, int], None]], None]) -> None:
        """Have it brought, once; whatever happens, whoever waits for a byte goes on afterwards.

        Args:
            bring: fills memory at an address, and says of each piece, with offset and size, when it
                is there.

        Raises:
            ExhaustedError: the system has no memory left.
            SealcarError: what bringing it raises.
        """
        with self:
            try:
                bring(self._beside.address, self._came)
            except BaseException:
                give_back(self._room.address, self._room.size)
                raise
            if any(self._left):
                raise WrongStateError("pieces are missing")
            protect(self._room.address, self._room.size)

    def close(self) -> None:
        """Bring nothing more."""
        self._missing.close()
        give_back(self._beside.address, self._beside.size)

    def _came(self, offset: int, size: int) -> None:
        end = offset + size
        while offset < end:
            number = offset // _HUGE
            here = min(end, (number + 1) * _HUGE) - offset
            self._left[number] -= here
            offset += here
            if not self._left[number]:
                self._move(number * _HUGE)

    def _move(self, at: int) -> None:
        try:
            self._missing.fill(self._room.address + at, self._beside.address + at, _HUGE)
        except OSError as error:
            raise ExhaustedError(f"no memory for {self.size} bytes: {error.strerror}") from error


class ArrivingPayload(Closing):
    """A payload on its way into memory of its own.

    Args:
        memory: where it is to be; of this object from now on.
        reader: opens it.

    Attributes:
        view: of all of it, as `ArrivingMemory.view` says.
    """

    def __init__(self, memory: ArrivingMemory, reader: Callable[[], PayloadReader]) -> None:
        self._memory, self._reader = memory, reader
        self.view = memory.view()

    def bring(self) -> None:
        """Return when it is there; whatever happens, whoever waits for a byte of it goes on then.

        Raises:
            SealcarError: what went wrong, with scope and name.
        """
        with self, self._reader() as reader:
            reader.bring(self._memory)

    def close(self) -> None:
        """Bring nothing more."""
        self._memory.close()
