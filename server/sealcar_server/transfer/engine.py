"""The cipher workers: one a core, fed with tokens.

A token is one slot's worth of one transfer. Owners take turns, and so do the transfers of one
owner, however many slots each of them has. A client that is slow holds no worker: its tokens come
when it frees its slots.
"""

from __future__ import annotations

import os
import sys
import threading
import time
from queue import Empty, SimpleQueue
from typing import TYPE_CHECKING, Final, NamedTuple, Protocol

from sealcar_server.sealing.scratch import Scratch
from sealcar_server.transfer.crowds import MANY, Crowds
from sealcar_server.transfer.turns import Turns

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable

# The workers come back for the interpreter lock several times a segment. At the default of 5 ms
# one busy Python thread would make each of those a wait of 5 ms.
_SWITCH_INTERVAL: Final = 0.0005
# Below the threads that answer: bulk work has a core whenever nobody else wants it, and who asks
# for something small beside big transfers isn't made to wait for one.
_NICE: Final = 10


class Token(NamedTuple):
    """One slot's worth of work. Beyond the slot only writes say anything."""

    slot: int
    segment: int = 0
    size: int = 0
    last: bool = False


class Job(Protocol):
    """What tokens belong to."""

    @property
    def owner(self) -> Hashable:
        """With whom it shares turns."""

    def work(self, token: Token, scratch: Scratch) -> None:
        """Do one token's worth, on a worker's thread. Never raises."""


class _Question:
    def __init__(self, answered: Callable[[], None]) -> None:
        self._answered = answered
        self.owner = self

    def work(self, token: Token, scratch: Scratch) -> None:  # noqa: ARG002  (of a job)
        """Answer."""
        self._answered()


class Engine:
    """A fixed pool of workers.

    Args:
        workers: how many; None: one for each core that this process may use.
        crowds: says when pieces of one who has very many transfers are taken.
    """

    def __init__(self, workers: int | None = None, crowds: Crowds | None = None) -> None:
        self._crowds = crowds or Crowds()
        self._closing = False
        # as many wake-ups as there are tokens; which one it is the turns say
        self._queue: SimpleQueue[bool] = SimpleQueue()
        self._turns: Turns[Job, tuple[Token, float]] = Turns()
        self._lock = threading.Lock()
        count = workers or len(os.sched_getaffinity(0))
        self._threads = [
            threading.Thread(target=self._run, name=f"cipher-{number}", daemon=True)
            for number in range(count)
        ]

    @property
    def workers(self) -> int:
        """How many there are."""
        return len(self._threads)

    @property
    def queued(self) -> int:
        """How many tokens wait for a worker."""
        return len(self._turns)

    def start(self) -> None:
        """Start the workers."""
        sys.setswitchinterval(_SWITCH_INTERVAL)
        for thread in self._threads:
            thread.start()

    def put(self, job: Job, token: Token) -> None:
        """Queue one token."""
        with self._lock:
            self._turns.put(job.owner, job, (token, time.monotonic()))
        self._queue.put(True)  # noqa: FBT003  (of a queue)

    def ask(self, answered: Callable[[], None]) -> None:
        """Have a worker call this, when it has time."""
        self.put(_Question(answered), Token(0))

    def close(self) -> None:
        """Let the workers finish what is queued, and wait for them."""
        self._closing = True
        for _ in self._threads:
            self._queue.put(False)  # noqa: FBT003  (of a queue)
        for thread in self._threads:
            thread.join()

    def _run(self) -> None:
        os.setpriority(os.PRIO_PROCESS, threading.get_native_id(), _niceness())
        scratch = Scratch()
        left, rest = 0, 0.0
        while (woken := self._woken(rest if left else None)) is not None:
            rest = self._work(scratch)
            # each wake-up is for one token, now or after a rest
            left += woken - (not rest)
        for _ in range(left):
            self._work(scratch)
        scratch.wipe()

    def _woken(self, rest: float | None) -> int | None:
        """Wait for a token; 0: that took as long as the rest; None: it is the end."""
        try:
            return 1 if self._queue.get(timeout=rest) else None
        except Empty:
            return 0

    def _work(self, scratch: Scratch) -> float:
        """Do one token's worth, or return the seconds until those that there are may be taken."""
        with self._lock:
            crowding = self._turns.waiting(MANY)
            # who has transfers waiting too has turns with the crowd, and isn't company for it
            waiting = self._turns.waiting() if crowding else ()
            rests = {owner: self._crowds.rest(owner, waiting) for owner in crowding}
            resting = {} if self._closing else {one: rest for one, rest in rests.items() if rest}
            try:
                job, (token, since) = self._turns.take(resting)
            except LookupError:
                return min(resting.values())
            crowd = job.owner in crowding
            if crowd:
                self._crowds.begin()
        begun = time.monotonic()
        scratch.queued_seconds = begun - since
        job.work(token, scratch)
        if crowd:
            with self._lock:
                self._crowds.end(time.monotonic() - begun)
        return 0.0


def _niceness() -> int:
    """Return a niceness that any process may give itself: one that is nicer already stays so."""
    return max(os.getpriority(os.PRIO_PROCESS, 0), _NICE)
