"""A provider that doesn't answer isn't asked again at once, nor by everybody together."""

from __future__ import annotations

import random
import threading
import time
from typing import TYPE_CHECKING, Final, TypeVar

from sealcar.errors import KeyUnavailableError

if TYPE_CHECKING:
    from collections.abc import Callable

T = TypeVar("T")
_FIRST: Final = 0.5
_LONGEST: Final = 30.0
_JITTER: Final = random.SystemRandom()


class Circuit:
    """Lets calls through while they are answered.

    After one that wasn't, the next ones fail at once for a time that doubles with each failure, up
    to half a minute; each time is shortened by chance, so that many daemons don't return together.
    Then a single call tries. A refusal is an answer.

    Args:
        told: whether there was an answer, after each call that was let through.
    """

    def __init__(self, told: Callable[[bool], None] = lambda _up: None) -> None:
        self._told = told
        self._lock = threading.Lock()
        self._failures = 0
        self._until = 0.0
        self._trying = False
        self._problem = ""

    def call(self, act: Callable[[], T], *, now: bool = False) -> T:
        """Return what `act` returns.

        Args:
            act: asks the provider.
            now: ask in any case. It is for questions about a provider: an answer counts, but none
                is no reason to keep calls from it.

        Raises:
            KeyUnavailableError: it isn't the time to ask; or `act` raised it.
            SealcarError: whatever else `act` raises.
        """
        before = 0 if now else self._enter()
        try:
            answer = act()
        except KeyUnavailableError as error:
            self._told(False)  # noqa: FBT003  (a hook, called with what it is told)
            if now:
                raise
            raise self._failed(before, error) from error.__cause__
        except BaseException:
            self._answered()
            raise
        self._answered()
        return answer

    def _enter(self) -> int:
        with self._lock:
            left = self._until - time.monotonic()
            if self._failures and (left > 0 or self._trying):
                raise KeyUnavailableError(self._problem, retry_after=round(max(left, _FIRST), 1))
            self._trying = self._failures > 0
            return self._failures

    def _answered(self) -> None:
        self._told(True)  # noqa: FBT003  (as above)
        with self._lock:
            self._failures, self._trying, self._problem = 0, False, ""

    def _failed(self, before: int, error: KeyUnavailableError) -> KeyUnavailableError:
        with self._lock:
            self._trying = False
            # calls that were under way together are one failure
            if self._failures == before:
                self._failures += 1
                longest = min(_FIRST * 2.0 ** min(self._failures - 1, 16), _LONGEST)
                self._until = time.monotonic() + longest * _JITTER.uniform(0.5, 1)
            self._problem = error.message
            left = max(self._until - time.monotonic(), _FIRST)
        return KeyUnavailableError(error.message, place=error.place, retry_after=round(left, 1))
