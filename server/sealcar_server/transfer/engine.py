"""The cipher workers: one a core, fed with tokens.

A token is one slot's worth of one transfer. Owners take turns, and so do the transfers of one
owner, however many slots each of them has. A client that is slow holds no worker: its tokens come
when it frees its slots.
"""

from __future__ import annotations

import contextlib
import os
import sys
import threading
import time
from typing import TYPE_CHECKING, Final, NamedTuple, Protocol

from sealcar_server.sealing.scratch import Scratch
from sealcar_server.transfer.crowds import MANY, Crowds
from sealcar_server.transfer.turns import Turns

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable, Iterable

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
        self._turns: Turns[Job, tuple[Token, float]] = Turns()
        self._lock = threading.Lock()
        self._changed = threading.Condition(self._lock)
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

    def put(self, job: Job, *tokens: Token) -> None:
        """Queue tokens of one job."""
        now = time.monotonic()
        with self._lock:
            for token in tokens:
                self._turns.put(job.owner, job, (token, now))
            self._changed.notify(len(tokens))

    def alone(self, job: Job) -> bool:
        """Tell whether no token waits but of this job."""
        with self._lock:
            return self._turns.alone(job.owner, job)

    def ask(self, answered: Callable[[], None]) -> None:
        """Have a worker call this, when it has time."""
        self.put(_Question(answered), Token(0))

    def close(self) -> None:
        """Let the workers finish what is queued, and wait for them."""
        with self._lock:
            self._closing = True
            self._changed.notify_all()
        for thread in self._threads:
            thread.join()

    def _run(self) -> None:
        _give_way()
        scratch = Scratch()
        while (taken := self._take()) is not None:
            job, (token, since), crowd = taken
            begun = time.monotonic()
            scratch.queued_seconds = begun - since
            job.work(token, scratch)
            if crowd:
                with self._lock:
                    self._crowds.end(time.monotonic() - begun)
        scratch.wipe()

    def _take(self) -> tuple[Job, tuple[Token, float], bool] | None:
        """Wait for a token; whether it is a crowd's comes with it. None: it is the end."""
        with self._lock:
            while True:
                crowding = self._turns.waiting(MANY)
                resting = self._resting(crowding) if crowding else {}
                try:
                    job, token = self._turns.take(resting)
                except LookupError:
                    if self._closing:
                        return None
                    self._changed.wait(min(resting.values(), default=None))
                    continue
                crowd = job.owner in crowding
                if crowd:
                    self._crowds.begin()
                return job, token, crowd

    def _resting(self, crowding: Iterable[Hashable]) -> dict[Hashable, float]:
        """Return of whom no token may be taken for how many seconds."""
        if self._closing:
            return {}
        # who has transfers waiting too has turns with the crowd, and isn't company for it
        waiting = self._turns.waiting()
        rests = {owner: self._crowds.rest(owner, waiting) for owner in crowding}
        return {owner: rest for owner, rest in rests.items() if rest}


def _give_way() -> None:
    """Have this thread give way to those that answer, and interrupt nobody when it has work."""
    # by a niceness that any process may give itself: one that is nicer already stays so
    niceness = max(os.getpriority(os.PRIO_PROCESS, 0), _NICE)
    os.setpriority(os.PRIO_PROCESS, threading.get_native_id(), niceness)
    with contextlib.suppress(OSError):  # a sandbox may forbid it
        if os.sched_getscheduler(0) == os.SCHED_OTHER:
            os.sched_setscheduler(0, os.SCHED_BATCH, os.sched_param(0))
