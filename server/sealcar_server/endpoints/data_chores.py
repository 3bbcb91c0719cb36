"""Threads for what may wait for a disk or a key service, and none to take all of them."""

from __future__ import annotations

import threading
from collections import Counter, deque
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable

_THREADS: Final = 8


class Chores:
    """Runs chores in the order of asking; of one owner at most three quarters of the threads.

    Who waits for a key service that doesn't answer, or for a slow disk, so holds up himself only.
    """

    def __init__(self) -> None:
        self._share = _THREADS - _THREADS // 4
        self._changed = threading.Condition()
        self._waiting: deque[tuple[Hashable, Callable[[], None]]] = deque()
        self._running: Counter[Hashable] = Counter()
        self._closing = False
        self._threads = [
            threading.Thread(target=self._run, name=f"data-chore-{number}", daemon=True)
            for number in range(_THREADS)
        ]
        for thread in self._threads:
            thread.start()

    def put(self, owner: Hashable, chore: Callable[[], None]) -> None:
        """Queue a chore, which must not raise."""
        with self._changed:
            self._waiting.append((owner, chore))
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
            chore()
            with self._changed:
                self._running[owner] -= 1
                if not self._running[owner]:
                    del self._running[owner]

    def _take(self) -> tuple[Hashable, Callable[[], None]] | None:
        with self._changed:
            while True:
                for at, (owner, chore) in enumerate(self._waiting):
                    if self._running[owner] < self._share:
                        del self._waiting[at]
                        self._running[owner] += 1
                        return owner, chore
                if self._closing:
                    return None
                self._changed.wait()
