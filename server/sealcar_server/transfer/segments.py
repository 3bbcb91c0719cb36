"""A segment: memory that holds one whole payload, for all its readers.

It is filled by `pwrite`, so that no mapping for writing ever exists; nobody gets it before it is
sealed against every change, and then only by descriptors that can't write anyway.
"""

from __future__ import annotations

import mmap
import os
import threading
from typing import TYPE_CHECKING, Final

from sealcar.errors import ExhaustedError
from sealcar.transfer.descriptors import FIXED_SIZE, Exported, Seal, memory, read_only, seal
from sealcar_server.transfer.held import held_elsewhere

if TYPE_CHECKING:
    from sealcar_server.transfer.locking import PageLocks

_READABLE: Final = 0o444


class Segment:
    """One payload's memory; the descriptors for clients are handed out once it is finished.

    Args:
        size: of the payload.
        locks: keep it from being swapped.

    Attributes:
        size: of the payload.
        locked: whether its pages are kept in memory.

    Raises:
        ExhaustedError: the system has no memory or descriptors left.
    """

    def __init__(self, size: int, locks: PageLocks) -> None:
        self.size: Final = size
        self.locked = False
        self._locks = locks
        # who has it is asked by a lease, which all threads of a process have together
        self._asking = threading.Lock()
        self._filled = self._watch = -1
        self._map: mmap.mmap | None = None
        try:
            self._filled = memory("sealcar-segment", size)
            seal(self._filled, FIXED_SIZE)
        except OSError as error:
            self.close()
            raise ExhaustedError(f"no segment could be made: {error.strerror}") from error

    def put(self, offset: int, data: memoryview) -> None:
        """Copy authentic bytes to their place. From any thread.

        Raises:
            ExhaustedError: the system has no memory left.
        """
        done = 0
        while done < len(data):
            try:
                done += os.pwrite(self._filled, data[done:], offset + done)
            except OSError as error:
                raise ExhaustedError(f"a segment can't be filled: {error.strerror}") from error

    def finish(self) -> None:
        """Seal it, now that everything is in it: it never changes again.

        Raises:
            ExhaustedError: the system has no descriptors left.
        """
        try:
            seal(self._filled, Seal.WRITE | Seal.SEAL)
            # whoever has a descriptor may open it anew by its path, whatever his uid: runtimes that
            # map a model take nothing else
            os.fchmod(self._filled, _READABLE)
            self._watch = read_only(self._filled)
        except OSError as error:
            raise ExhaustedError(f"a segment can't be sealed: {error.strerror}") from error
        os.close(self._filled)
        self._filled = -1
        if self.size:
            self._lock_pages()

    def descriptor(self) -> int:
        """Return a descriptor for a client, which the caller has to close.

        Raises:
            ExhaustedError: the system has none left.
        """
        try:
            with self._asking:
                return read_only(self._watch)
        except OSError as error:
            raise ExhaustedError(f"no descriptor is left: {error.strerror}") from error

    @property
    def watched(self) -> int:
        """A descriptor of it; -1: it isn't finished, or closed."""
        return self._watch

    @property
    def held(self) -> bool:
        """Whether another process has it open or mapped. Where the kernel can't say: no.

        From any thread.
        """
        with self._asking:
            return self._watch >= 0 and held_elsewhere(self._watch)

    def let_go(self) -> None:
        """Have it in memory no longer than others do."""
        if self._map is not None:
            self._map.close()
            self._map = None
        if self.locked:
            self.locked = False
            self._locks.give_back(self.size)

    def close(self) -> None:
        """Let go, and ask no more who has it."""
        self.let_go()
        with self._asking:
            for descriptor in (self._filled, self._watch):
                if descriptor >= 0:
                    os.close(descriptor)
            self._filled = self._watch = -1

    def _lock_pages(self) -> None:
        try:
            mapped = mmap.mmap(self._watch, self.size, prot=mmap.PROT_READ)
            mapped.madvise(mmap.MADV_DONTDUMP)
            mapped.madvise(mmap.MADV_DONTFORK)
        except OSError:
            return  # no room for addresses: unlocked is all that it is then
        with Exported(mapped) as whole:
            self.locked = self._locks.take(whole.address, self.size)
        if self.locked:
            self._map = mapped
        else:
            mapped.close()
