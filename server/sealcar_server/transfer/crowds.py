"""How soon a worker takes the next piece of one who has a crowd of transfers, while others ask.

Workers come back for the interpreter many times a piece, and with each time somebody who asks for
something small waits for it. One who has a few transfers under way is given all workers that are
free. A crowd is more than anybody needs to keep them busy: beside others one worker at a time
serves it, and a part of the time only.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Hashable

MANY: Final = 16  # transfers of one that wait for a worker: with no more he has no crowd
_PART: Final = 1 / 20  # of the time of one worker
_PIECE: Final = 0.05  # seconds that a piece is taken to last until it is over
_LONGEST: Final = 0.1  # seconds of rest: from a slow disk all that fit into memory get on in time


def _alone(_owner: Hashable, _but: Collection[Hashable]) -> bool:
    return False


class Crowds:
    """For one thread at a time.

    Args:
        accompanied: tells whether somebody asks for something small who isn't this owner, nor one
            of those others.
        clock: seconds that pass steadily.
    """

    def __init__(
        self,
        accompanied: Callable[[Hashable, Collection[Hashable]], bool] = _alone,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._accompanied, self._clock = accompanied, clock
        self._free = 0.0

    def rest(self, owner: Hashable, waiting: Collection[Hashable]) -> float:
        """Return the seconds until a piece of one who has a crowd may be taken.

        Args:
            owner: of the crowd.
            waiting: all of whom pieces wait.
        """
        rest = self._free - self._clock()
        return rest if rest > 0 and self._accompanied(owner, waiting) else 0.0

    def begin(self) -> None:
        """Note that a piece of a crowd was taken."""
        # until it is over no other one is
        self._free = self._clock() + _PIECE

    def end(self, seconds: float) -> None:
        """Note that it is over, and how long it took."""
        self._free = self._clock() + min(_LONGEST, seconds * (1 / _PART - 1))
