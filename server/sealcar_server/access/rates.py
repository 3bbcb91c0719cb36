"""How many requests a caller may make a second."""

from __future__ import annotations

import threading
import time
from typing import TYPE_CHECKING, Final

from sealcar.errors import ExhaustedError

if TYPE_CHECKING:
    from collections.abc import Callable

_KNOWN: Final = 4096  # callers remembered; who is forgotten has rested


class Rates:
    """One allowance for each caller, refilled steadily up to one second's worth. Thread-safe.

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
        self._lock = threading.Lock()
        self._left: dict[str, tuple[float, float]] = {}

    def take(self, account: str) -> str:
        """Count one request, and return who made it.

        Raises:
            ExhaustedError: too many came within a second; the error says when to try again.
        """
        most = self._per_second
        if not most:
            return account
        now = time.monotonic()
        with self._lock:
            left, since = self._left.pop(account, (float(most), now))
            left = min(float(most), left + (now - since) * most)
            allowed = left >= 1
            # put back at the end: the first ones are those who have rested longest
            self._left[account] = (left - 1 if allowed else left, now)
            if len(self._left) > _KNOWN:
                del self._left[next(iter(self._left))]
        if not allowed:
            self._on_denied("limit")
            self._on_refused(account, "requests")
            raise ExhaustedError(
                f"{account} makes more than {most} requests a second; see limits.requests",
                retry_after=max(0.01, (1 - left) / most),
            )
        return account


UNLIMITED: Final = Rates(0)
