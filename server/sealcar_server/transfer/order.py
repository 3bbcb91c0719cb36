"""Which piece a token is for: the next one, or the one that it had to wait for.

Several that follow each other can be for one token, which has them in one slot unless others wait.

No worker waits for a piece that isn't here yet. Its token does, out of the queue, and comes back
into it for this very piece when that has come.
"""

from __future__ import annotations

import itertools
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
        run: how many pieces are for one token.
    """

    def __init__(
        self,
        reader: SealedReader,
        spent: Spent,
        again: Callable[[Token], None],
        *,
        run: int = 1,
    ) -> None:
        self._reader, self._spent, self._again = reader, spent, again
        self._count, self._run = reader.layout.count, run
        # next() of a count is atomic: the token comes first, the index second
        self._next = itertools.count()
        # by slot, of which there is one token at a time: which piece, and since when
        self._waiting: dict[int, tuple[int, float]] = {}
        self._left: dict[int, int] = {}

    def take(self, token: Token) -> int:
        """Return the index of its piece, which may be past the last one."""
        waited = self._waiting.pop(token.slot, None) if self._waiting else None
        if waited is None:
            left = self._left.pop(token.slot, None) if self._left else None
            return next(self._next) * self._run if left is None else left
        index, since = waited
        self._spent.add({"fetch": time.perf_counter() - since})
        return index

    def following(self, index: int) -> int | None:
        """Return the piece that is for the same token after this one, if there is one."""
        index += 1
        return index if index % self._run and index < self._count else None

    def leave(self, token: Token, index: int) -> None:
        """Have a token take a piece when it comes back, as it is for nobody else."""
        self._left[token.slot] = index

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
