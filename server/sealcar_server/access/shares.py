"""How much of the daemon's time callers have who ask without pause, while others ask too.

The interpreter runs one thread at a time, and a request is many steps. Whoever keeps it busy makes
each step for others wait. So the steps for those who ask without pause are spread out while there
is somebody who doesn't: the next one begins when the one before it is no more than a share of the
time since. None is refused: what they sent is left lying, and their programs wait.
"""

from __future__ import annotations

import threading
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Hashable

_BURST: Final = 0.1  # seconds of the daemon's time at once: a model of hundreds of payloads loads
_BUSY: Final = 0.3  # of the time: who takes more for longer than that asks without pause
_COMPANY: Final = 0.1  # seconds that somebody is there after a step for him
_KNOWN: Final = 4096  # callers remembered; who is forgotten has rested
_TURN: Final = 0.01  # seconds in which one who may have a step asks again whether he may
_STEP: Final = 0.0005  # seconds that a step is taken to last until it is over
_LONGEST: Final = 0.1  # seconds of rest: who has many long steps to be made is served in time too


@dataclass
class _Taken:
    """What a caller has left of his burst, since when that grows, and whether it was used up.

    Attributes:
        at: when the last step for him ended.
    """

    left: float
    since: float
    at: float
    busy: bool = False

    def look(self, now: float) -> bool:
        """Let it grow until now, and tell whether he asks without pause."""
        self.left = min(_BURST, self.left + max(0.0, now - self.since) * _BUSY)
        self.since = max(self.since, now)
        if self.left <= 0:
            self.busy = True
        elif self.left >= _BURST / 2:
            self.busy = False
        return self.busy


class Shares:
    """Thread-safe. Owners that are text are callers' accounts; others are the daemon's own.

    Args:
        percent: of the daemon's time for all together who ask without pause, while somebody else
            asks; 100: no difference is made.
        clock: seconds that pass steadily.
    """

    def __init__(self, percent: int, clock: Callable[[], float] = time.monotonic) -> None:
        self._spread = 100 / percent - 1
        self._clock = clock
        self._lock = threading.Lock()
        # those for whom there was a step last are the last ones
        self._taken: dict[Hashable, _Taken] = {}
        self._free = 0.0  # when the next step of one who does may begin

    def rest(self, owner: Hashable) -> float:
        """Return the seconds until a step for an owner may begin. It means that there is one."""
        taken = self._taken.get(owner)
        if taken is None or not taken.busy:
            return 0.0
        with self._lock:
            return self._rest(owner, taken, self._clock())

    def begin(self, owner: Hashable) -> float:
        """Begin a step and return 0; or don't, and return as `rest`."""
        if not isinstance(owner, str):
            return 0.0
        now = self._clock()
        with self._lock:
            taken = self._taken.get(owner)
            if taken is None or not taken.look(now):
                return 0.0
            rest = self._rest(owner, taken, now)
            if not rest:
                # until it is over no other one begins
                self._free = now + _STEP * self._spread
        return rest

    def end(self, owner: Hashable, seconds: float) -> None:
        """Account for a step that took so much of the daemon's time."""
        if not isinstance(owner, str):
            return
        now = self._clock()
        with self._lock:
            taken = self._taken.pop(owner, None) or _Taken(_BURST, now, now)
            if taken.look(now):
                self._free = now + min(_LONGEST, seconds * self._spread)
            # nothing is owed: what he did while he was alone isn't held against him
            taken.left = max(0.0, taken.left - seconds)
            taken.look(now)
            taken.at = now
            self._taken[owner] = taken
            if len(self._taken) > _KNOWN:
                del self._taken[next(iter(self._taken))]

    def accompanied(self, owner: Hashable, but: Collection[Hashable] = ()) -> bool:
        """Tell whether somebody else asks, and not without pause.

        Args:
            owner: who may be alone.
            but: who else doesn't count.
        """
        with self._lock:
            return self._accompanied(owner, but, self._clock())

    def _accompanied(self, owner: Hashable, but: Collection[Hashable], now: float) -> bool:
        if not self._spread:
            return False
        for other in reversed(self._taken):
            taken = self._taken[other]
            if now - taken.at >= _COMPANY:
                return False
            if other != owner and not taken.busy and other not in but:
                return True
        return False

    def _rest(self, owner: Hashable, taken: _Taken, now: float) -> float:
        if not taken.look(now) or self._free <= now or not self._accompanied(owner, (), now):
            return 0.0
        # who waits, for others' steps too, isn't one who doesn't ask
        taken.since = self._free + _TURN
        return self._free - now


UNLIMITED: Final = Shares(100)
