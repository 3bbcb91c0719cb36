"""Pages that are there already are put into this process's tables before anybody touches them.

Whoever reads memory that was just mapped stops every few pages, until these are found. A thread of
its own is ahead of him soon.
"""

from __future__ import annotations

import threading
from contextlib import suppress
from typing import TYPE_CHECKING, Final

from sealcar.transfer.memory import populate

if TYPE_CHECKING:
    import mmap

# below it a thread costs more than it saves
_LEAST: Final = 4 << 20
# of a time: as long `end` may have to wait, and whoever else changes this process's mappings
_STEP: Final = 1 << 20


class Populating:
    """Begins at once, and ends by itself; what it doesn't come to is found when it is touched.

    Args:
        mapped: to be read; kept as long as this goes on, and closed only after `end`.
        address: where it lies.
    """

    def __init__(self, mapped: mmap.mmap, address: int) -> None:
        self._wanted = True
        self._thread: threading.Thread | None = None
        if len(mapped) < _LEAST:
            return
        thread = threading.Thread(
            target=self._run, args=(mapped, address), name="pages", daemon=True
        )
        with suppress(RuntimeError):  # there can be no more threads
            thread.start()
            self._thread = thread

    def end(self) -> None:
        """Touch nothing any more when this returns; in a child of fork nothing was."""
        self._wanted = False
        if self._thread is not None:
            self._thread.join()

    def _run(self, mapped: mmap.mmap, address: int) -> None:
        size = len(mapped)
        for at in range(0, size, _STEP):
            if not self._wanted or not populate(address + at, min(_STEP, size - at)):
                return
