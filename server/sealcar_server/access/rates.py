"""How often a caller may do something."""

from __future__ import annotations

import threading
import time
from typing import TYPE_CHECKING, Final

from sealcar.errors import ExhaustedError

if TYPE_CHECKING:
    from collections.abc import Callable

_KNOWN: Final = 4096  # callers remembered; who is forgotten has rested


class Allowances:
    """One for each caller, refilled steadily. Thread-safe.

    Args:
        per_second: how much comes back.
        most: what a caller has who has rested.
    """

    def __init__(self, per_second: float, most: float) -> None:
        self._per_second, self._most = per_second, most
        self._lock = threading.Lock()
        self._left: dict[str, tuple[float, float]] = {}

    def take(self, account: str) -> float:
        """Take one, and return 0; or none, and return the seconds until there is one."""
        now = time.monotonic()
        with self._lock:
            left, since = self._left.pop(account, (self._most, now))
            left = min(self._most, left + (now - since) * self._per_second)
            allowed = left >= 1
            # put back at the end: the first ones are those who have rested longest
            self._left[account] = (left - 1 if allowed else left, now)
            if len(self._left) > _KNOWN:
                del self._left[next(iter(self._left))]
        return 0.0 if allowed else (1 - left) / self._per_second


class Rates:
    """How many requests a caller may make: one second's worth at once. Thread-safe.

    Args:
        per_second: requests of one account; 0: no limit.
        on_denied: told "limit" at each refusal.
        on_refused: told who was refused, and "requests".
    """

    def __init__(
        self,
        per_second: int,
        on_denied: Callable[[str], None] = lambda _kind: None,
        on_refused: Callable[[str, str], None] = lambda _account, _reason: None,
    ) -> None:
        self._per_second, self._on_denied, self._on_refused = per_second, on_denied, on_refused
        self._allowances = Allowances(per_second, per_second)

    def take(self, account: str) -> str:
        """Count one request, and return who made it.

        Raises:
            ExhaustedError: too many came within a second; the error says when to try again.
        """
        most = self._per_second
        wait = self._allowances.take(account) if most else 0.0
        if wait:
            self._on_denied("limit")
            self._on_refused(account, "requests")
            raise ExhaustedError(
                f"{account} makes more than {most} requests a second; see limits.requests",
                retry_after=max(0.01, wait),
            )
        return account


UNLIMITED: Final = Rates(0)
