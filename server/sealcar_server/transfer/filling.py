"""A payload on its way into a segment: authentic in private scratch first."""

from __future__ import annotations

import itertools
import time
from functools import partial
from typing import TYPE_CHECKING, Final

from sealcar_server.transfer.engine import Token
from sealcar_server.transfer.flow import Flow
from sealcar_server.transfer.order import Order
from sealcar_server.transfer.spent import Spent

if TYPE_CHECKING:
    from collections.abc import Callable

    from sealcar.errors import SealcarError
    from sealcar_server.sealing.reader import SealedReader
    from sealcar_server.sealing.scratch import Scratch
    from sealcar_server.transfer.engine import Engine
    from sealcar_server.transfer.segments import Segment

# as many as a ring has slots: so it takes turns with reads as one of them
_AHEAD: Final = 8


class SegmentFill(Flow):
    """All pieces of one payload into one segment, in the order of the queue.

    Args:
        reader: where they come from.
        segment: where they go.
        engine: does the work.
        ended: as Flow.

    Attributes:
        filled: bytes so far.
        spent: where the time goes.
    """

    def __init__(
        self,
        reader: SealedReader,
        segment: Segment,
        engine: Engine,
        ended: Callable[[SealcarError | None], None],
    ) -> None:
        super().__init__(ended)
        self._segment, self._engine = segment, engine
        self._count = reader.layout.count
        self.filled = 0
        self.spent: Final = Spent()
        self._order = Order(reader, self.spent, partial(engine.put, self))
        # next() of a count is atomic
        self._placed = itertools.count(1)

    def begin(self) -> None:
        """Start the work."""
        for slot in range(min(_AHEAD, self._count)):
            self._engine.put(self, Token(slot))

    def _step(self, token: Token, scratch: Scratch) -> bool:
        pieces = self._order.take(token)
        if not pieces:
            return False
        span = self._order.read(token, pieces[0], scratch, self.owner)
        if span is None:
            return False
        begun = time.perf_counter()
        self._segment.put(span.plain_at, scratch.plain[: span.plain_size])
        self.spent.add(
            {
                "queue": scratch.queued_seconds,
                "read": scratch.read_seconds,
                "decrypt": scratch.open_seconds,
                "first-touch": time.perf_counter() - begun,
            }
        )
        with self._lock:
            self.filled += span.plain_size
        self._engine.put(self, token)
        return next(self._placed) == self._count
