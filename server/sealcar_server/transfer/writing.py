"""A payload on its way from a client: out of the slot into private scratch, then sealed.

The client can change a slot at any time, so what is sealed is a copy that it can't reach. Each
segment is sealed once: a transfer that fails is never taken up again.
"""

from __future__ import annotations

import ctypes
import itertools
from typing import TYPE_CHECKING, Protocol

from sealcar.errors import WrongStateError
from sealcar_server.sealing.layout import FIRST_PIECE, PIECE
from sealcar_server.transfer.flow import Flow

if TYPE_CHECKING:
    from collections.abc import Callable

    from sealcar.errors import SealcarError
    from sealcar_server.sealing.scratch import Scratch
    from sealcar_server.transfer.engine import Token
    from sealcar_server.transfer.rings import Ring


class Target(Protocol):
    """Where segments are sealed to, from any thread."""

    def seal_segment(self, index: int, scratch: Scratch, plain_size: int, *, last: bool) -> None:
        """Seal what lies in the scratch as this segment."""


class PieceOrder:
    """What the next piece of a write must be. Used by one thread.

    Args:
        declared: size that the client gave beforehand, if it did.
    """

    def __init__(self, declared: int | None) -> None:
        self._declared = declared
        self._index = 0
        self.size = 0
        self.complete = False

    def take(self, offset: int, size: int, *, last: bool) -> int:
        """Check one announced piece, and return its segment's index.

        Raises:
            WrongStateError: it isn't the piece that has to come.
        """
        room = PIECE if self._index else FIRST_PIECE
        least = (1 if self._index else 0) if last else room
        if self.complete or offset != self.size or not least <= size <= room:
            raise WrongStateError(
                f"piece {self._index} of a write has to lie at {self.size} and hold {room} bytes,"
                " the last one may hold fewer"
            )
        end = self.size + size
        if self._declared is not None and (end > self._declared or last != (end == self._declared)):
            raise WrongStateError(f"the pieces don't add up to {self._declared} bytes")
        self.size = end
        self.complete = last
        self._index += 1
        return self._index - 1


class RingWrite(Flow):
    """Slots that a client filled, sealed as they come.

    Args:
        target: what seals them.
        ring: where they lie.
        free: tells the client that a slot may be filled again; raises if the client is gone.
        ended: as Flow.
    """

    def __init__(
        self,
        target: Target,
        ring: Ring,
        free: Callable[[int], None],
        ended: Callable[[SealcarError | None], None],
    ) -> None:
        super().__init__(ended)
        self._target, self._ring, self._free = target, ring, free
        self._count: int | None = None
        self._sealed = itertools.count(1)

    def expect(self, count: int) -> None:
        """Say how many segments there are, before the last one is queued."""
        self._count = count

    def _step(self, token: Token, scratch: Scratch) -> bool:
        ctypes.memmove(scratch.address_of_plain, self._ring.address(token.slot), token.size)
        self._free(token.slot)
        self._target.seal_segment(token.segment, scratch, token.size, last=token.last)
        return next(self._sealed) == self._count
