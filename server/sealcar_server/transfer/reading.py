"""A payload on its way to a client: authentic in private scratch first, then into a slot."""

from __future__ import annotations

import ctypes
import time
from functools import partial
from typing import TYPE_CHECKING

from sealcar_server.sealing.layout import SEGMENT
from sealcar_server.transfer.flow import Flow
from sealcar_server.transfer.order import Order
from sealcar_server.transfer.rings import MANY
from sealcar_server.transfer.spent import Spent

if TYPE_CHECKING:
    from collections.abc import Callable

    from sealcar.errors import SealcarError
    from sealcar_server.sealing.reader import SealedReader
    from sealcar_server.sealing.scratch import Scratch
    from sealcar_server.transfer.engine import Engine, Token
    from sealcar_server.transfer.rings import Ring


class SealedSource:
    """A payload that is decrypted segment by segment.

    Attributes:
        reader: of it.
        in_one: all of it goes into one slot, by one token.
        spent: where the time goes.
    """

    def __init__(self, reader: SealedReader) -> None:
        self.spent = Spent()
        self.reader = reader
        self.size = reader.layout.plain_size
        self.count = reader.layout.count
        # a MiB is a segment and a few bytes: for those no other worker is woken
        self.in_one = self.size <= SEGMENT and not reader.waits


class RingRead(Flow):
    """Pieces of one payload into the slots of one ring, in the order of the queue.

    Args:
        source: where the pieces come from.
        ring: where they go.
        engine: does the work.
        announce: tells the client of slot, offset and size; raises if the client is gone.
        ended: as Flow.
    """

    def __init__(
        self,
        source: SealedSource,
        ring: Ring,
        engine: Engine,
        announce: Callable[[int, int, int], None],
        ended: Callable[[SealcarError | None], None],
    ) -> None:
        super().__init__(ended)
        self._source, self._ring, self._announce = source, ring, announce
        self._engine = engine
        self._order = Order(source.reader, source.spent, partial(engine.put, self))
        # few pieces are there sooner one by one
        self._together = 1 if source.reader.waits or source.count < MANY else ring.segments
        self._announced = 0

    def _most(self) -> int:
        """Return how many pieces one token may take now."""
        if self._source.in_one:
            return self._source.count
        # while others wait, each has his turn by the piece
        return self._together if self._together > 1 and self._engine.alone(self) else 1

    def _step(self, token: Token, scratch: Scratch) -> bool:
        pieces = self._order.take(token, self._most())
        if not pieces:
            return False
        span = self._order.read(token, pieces[0], scratch, self.owner)
        if span is None:
            return False
        slot, begin = token.slot, span.plain_at
        start = self._ring.address(slot) - begin
        phase = "first-touch" if self._ring.touch(slot) else "place"
        seconds = {"queue": scratch.queued_seconds, "read": 0.0, "decrypt": 0.0, phase: 0.0}
        for index in pieces:
            if index != pieces[0]:
                span = self._source.reader.read_segment(index, scratch)
            begun = time.perf_counter()
            ctypes.memmove(start + span.plain_at, scratch.address_of_plain, span.plain_size)
            seconds[phase] += time.perf_counter() - begun
            seconds["read"] += scratch.read_seconds
            seconds["decrypt"] += scratch.open_seconds
        self._source.spent.add(seconds)
        self._announce(slot, begin, span.plain_at + span.plain_size - begin)
        # counted after the packet went out, or the end could overtake another worker's piece
        with self._lock:
            self._announced += len(pieces)
            return self._announced == self._source.count
