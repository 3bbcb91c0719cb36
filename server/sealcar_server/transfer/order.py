"""Which pieces a token is for: the next ones, or the one that it had to wait for.

No worker waits for a piece that isn't here yet. Its token does, out of the queue, and comes back
into it for this very piece when that has come.
"""

from __future__ import annotations

import threading
import time
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable

    from sealcar_server.sealing.layout import Span
    from sealcar_server.sealing.reader import SealedReader
    from sealcar_server.sealing.scratch import Scratch
    from sealcar_server.transfer.engine import Token
    from sealcar_server.transfer.spent import Spent


class Order:
    """Of one transfer; for all workers.

    Args:
        reader: of the payload.
        spent: gets the seconds that pieces are waited for, as "fetch".
        again: puts a token back into the queue.
    """

    def __init__(self, reader: SealedReader, spent: Spent, again: Callable[[Token], None]) -> None:
        self._reader, self._spent, self._again = reader, spent, again
        self._lock = threading.Lock()
        self._left = range(reader.layout.count)
        # by slot, of which there is one token at a time: which piece, and since when
        self._waiting: dict[int, tuple[int, float]] = {}

    def take(self, token: Token, most: int = 1) -> range:
        """Return the indices of its pieces, at most so many; none: all are taken."""
        waited = self._waiting.pop(token.slot, None) if self._waiting else None
        if waited is None:
            with self._lock:
                taken, self._left = self._left[:most], self._left[most:]
            return taken
        index, since = waited
        self._spent.add({"fetch": time.perf_counter() - since})
        return range(index, index + 1)

    def read(self, token: Token, index: int, scratch: Scratch, owner: Hashable) -> Span | None:
        """Leave a piece in `scratch.plain`; None: it isn't here yet, and its token will come back.

        Raises:
            DamagedError: it isn't what was sealed; the scratch is wiped.
            StorageError: it can't be read.
        """
        if not self._reader.waits:
            return self._reader.read_segment(index, scratch)
        # before it is asked for: it may be here, and its token on its way, before this returns
        self._waiting[token.slot] = (index, time.perf_counter())
        found = self._reader.segment_if_here(index, scratch, lambda: self._again(token), owner)
        if found is not None:
            del self._waiting[token.slot]
        return found
