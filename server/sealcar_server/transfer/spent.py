"""Where the time of one transfer goes, over all of its pieces and workers together."""

from __future__ import annotations

import threading
import time
from typing import TYPE_CHECKING

from sealcar_server import spans

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from sealcar_server.transfer.metering import Meter


class Spent:
    """Sums of seconds by phase, for the request that is being done now. Thread-safe."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._seconds: dict[str, float] = {}
        self._span = spans.current()
        self._begun = time.monotonic()

    def add(self, seconds: Mapping[str, float]) -> None:
        """Add what one piece took."""
        with self._lock:
            for phase, value in seconds.items():
                self._seconds[phase] = self._seconds.get(phase, 0.0) + value

    def tell(self, meter: Meter) -> None:
        """Report each phase's sum, and all of it as one part of the request."""
        with self._lock:
            seconds, self._seconds = self._seconds, {}
        for phase, value in seconds.items():
            meter.spent(phase, value)
        if seconds:
            part = self._span.child("decrypt", begun=self._begun)
            # workers and the client work at the same time: together it may be more than passed
            part.tell(**{f"seconds.{phase}": value for phase, value in seconds.items()})
            part.end()


class Lending:
    """How long slots are the client's, and how long all of them are, so that nothing moves.

    Args:
        slots: how many the transfer uses.
        spent: gets the sums.
    """

    def __init__(self, slots: int, spent: Spent) -> None:
        self._slots, self._spent = slots, spent
        self._lock = threading.Lock()
        self._since: dict[int, float] = {}
        self._all_since = 0.0

    def lent(self, slot: int) -> None:
        """Note that a slot is about to be announced. On any thread."""
        now = time.monotonic()
        with self._lock:
            self._since[slot] = now
            if len(self._since) == self._slots:
                self._all_since = now

    def returned(self, slots: Iterable[int]) -> None:
        """Note that the client gave slots back."""
        now = time.monotonic()
        with self._lock:
            waited = now - self._all_since if self._all_since else 0.0
            self._all_since = 0.0
            copied = sum(now - self._since.pop(slot, now) for slot in slots)
        self._spent.add({"client-wait": waited, "client-copy": copied})
