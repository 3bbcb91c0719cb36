"""A payload on its way to a client: authentic in private scratch first, then into a slot."""

from __future__ import annotations

import ctypes
import itertools
import time
from typing import TYPE_CHECKING

from sealcar_server.transfer.flow import Flow
from sealcar_server.transfer.spent import Spent

if TYPE_CHECKING:
    from collections.abc import Callable

    from sealcar.errors import SealcarError
    from sealcar_server.sealing.reader import SealedReader
    from sealcar_server.sealing.scratch import Scratch
    from sealcar_server.transfer.engine import Token
    from sealcar_server.transfer.rings import Ring


class SealedSource:
    """A payload that is decrypted segment by segment.

    Attributes:
        spent: where the time goes.
    """

    def __init__(self, reader: SealedReader) -> None:
        self.spent = Spent()
        self._reader = reader
        self.size = reader.layout.plain_size
        self.count = reader.layout.count

    def put(
        self, index: int, scratch: Scratch, target: int, *, fresh: bool = False
    ) -> tuple[int, int]:
        """Copy one authentic piece to an address; return its offset and size.

        Args:
            index: of the piece.
            scratch: where it is decrypted.
            target: the address.
            fresh: nobody has touched the memory there yet.

        Raises:
            DamagedError: it isn't what was sealed; nothing was copied.
            StorageError: it can't be read.
        """
        span = self._reader.read_segment(index, scratch)
        begun = time.perf_counter()
        ctypes.memmove(target, scratch.address_of_plain, span.plain_size)
        self.spent.add(
            {
                "queue": scratch.queued_seconds,
                "read": scratch.read_seconds,
                "decrypt": scratch.open_seconds,
                "first-touch" if fresh else "place": time.perf_counter() - begun,
            }
        )
        return span.plain_at, span.plain_size


class RingRead(Flow):
    """Pieces of one payload into the slots of one ring, in the order of the queue.

    Args:
        source: where the pieces come from.
        ring: where they go.
        announce: tells the client of slot, offset and size; raises if the client is gone.
        ended: as Flow.
    """

    def __init__(
        self,
        source: SealedSource,
        ring: Ring,
        announce: Callable[[int, int, int], None],
        ended: Callable[[SealcarError | None], None],
    ) -> None:
        super().__init__(ended)
        self._source, self._ring, self._announce = source, ring, announce
        # next() of a count is atomic: the token comes first, the index second
        self._next = itertools.count()
        self._announced = itertools.count(1)

    def _step(self, token: Token, scratch: Scratch) -> bool:
        index = next(self._next)
        if index >= self._source.count:
            return False
        fresh = self._ring.touch(token.slot)
        offset, size = self._source.put(index, scratch, self._ring.address(token.slot), fresh=fresh)
        self._announce(token.slot, offset, size)
        # counted after the packet went out, or the end could overtake another worker's piece
        return next(self._announced) == self._source.count
