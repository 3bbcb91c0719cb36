"""Threads for what may wait for a disk or a key service, and none to take all of them.

Threads that compute get in each other's way, and in that of the socket's own thread: the
interpreter runs one of them at a time, and changing between them costs more than most chores. So of
each owner one chore runs at a time, and another one only when that takes long: then it waits for
something else than the interpreter.
"""

from __future__ import annotations

import math
import threading
import time
from collections import Counter, OrderedDict, deque
from typing import TYPE_CHECKING, Final, TypeAlias

from sealcar_server.access.shares import UNLIMITED, Shares

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable

_Chore: TypeAlias = "Callable[[], None]"
_THREADS: Final = 8
_LONG: Final = 0.02  # seconds after which a chore isn't believed to compute


class Chores:
    """Runs the chores of each owner in the order of asking, and those of owners in turns.

    One owner gets at most three quarters of the threads: who waits for a key service that doesn't
    answer, or for a slow disk, so holds up himself only.

    Args:
        shares: says when a chore of an owner may begin.
    """

    def __init__(self, shares: Shares = UNLIMITED) -> None:
        self._shares = shares
        self._share = _THREADS - _THREADS // 4
        self._changed = threading.Condition()
        self._waiting: OrderedDict[Hashable, deque[_Chore]] = OrderedDict()
        self._running: Counter[Hashable] = Counter()
        self._computing: dict[Hashable, tuple[_Chore, float]] = {}
        self._watching = self._closing = False
        self._threads = [
            threading.Thread(target=self._run, name=f"data-chore-{number}", daemon=True)
            for number in range(_THREADS)
        ]
        for thread in self._threads:
            thread.start()

    def put(self, owner: Hashable, chore: Callable[[], None]) -> None:
        """Queue a chore, which must not raise."""
        with self._changed:
            self._waiting.setdefault(owner, deque()).append(chore)
            # else whoever computes for the owner takes it, or the one who watches the time
            if owner not in self._computing or not self._watching:
                self._changed.notify()

    def close(self) -> None:
        """Let the threads finish what is queued, and wait for them."""
        with self._changed:
            self._closing = True
            self._changed.notify_all()
        for thread in self._threads:
            thread.join()

    def _run(self) -> None:
        while (taken := self._take()) is not None:
            owner, chore = taken
            begun = time.thread_time()
            chore()
            self._shares.end(owner, time.thread_time() - begun)
            with self._changed:
                self._running[owner] -= 1
                if not self._running[owner]:
                    del self._running[owner]
                computing = self._computing.get(owner)
                if computing is not None and computing[0] is chore:
                    del self._computing[owner]

    def _take(self) -> tuple[Hashable, _Chore] | None:
        with self._changed:
            while True:
                now = time.monotonic()
                owner, rest = self._next(now)
                if rest <= 0:
                    chore = self._pop(owner)
                    self._computing[owner] = (chore, now)
                    return owner, chore
                if self._closing and not self._waiting:
                    return None
                self._wait(rest)

    def _next(self, now: float) -> tuple[Hashable, float]:
        """Return whose turn it is, and in how many seconds: 0: it has begun; infinite: nobody's."""
        found: tuple[Hashable, float] = (None, math.inf)
        for owner in self._waiting:
            if self._running[owner] < self._share:
                computing = self._computing.get(owner)
                rest = max(0.0, computing[1] + _LONG - now) if computing else 0.0
                rest = rest or self._shares.begin(owner)
                found = min(found, (owner, rest), key=lambda one: one[1])
                if rest <= 0:
                    break
        return found

    def _pop(self, owner: Hashable) -> _Chore:
        queue = self._waiting[owner]
        chore = queue.popleft()
        self._waiting.move_to_end(owner)
        if not queue:
            del self._waiting[owner]
        self._running[owner] += 1
        if self._closing and not self._waiting:
            self._changed.notify_all()
        elif self._waiting and not self._watching:
            self._changed.notify()
        return chore

    def _wait(self, rest: float) -> None:
        """Wait for a chore; one thread only has an eye on the time."""
        if rest == math.inf or self._watching:
            self._changed.wait()
            return
        self._watching = True
        # others' chores may turn out to wait for something meanwhile
        self._changed.wait(min(rest, _LONG))
        self._watching = False
