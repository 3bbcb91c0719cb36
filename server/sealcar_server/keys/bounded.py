"""Calls that end in time, whatever a library does.

A network library bounds a connection or a read, but neither looking up a name nor a token's driver
that hangs. So each call runs in a thread of its own, and who waits for it gives up in time.
"""

from __future__ import annotations

import threading
import time
from concurrent.futures import Future
from typing import TYPE_CHECKING, Final, TypeVar

from sealcar.errors import KeyUnavailableError

if TYPE_CHECKING:
    from collections.abc import Callable

T = TypeVar("T")
_MOST: Final = 16


class Bounded:
    """Runs calls with a deadline; those that hang are few, and hold up nobody.

    Args:
        what: is called, for messages.
        timeout: seconds that whoever calls waits.
    """

    def __init__(self, what: str, timeout: float) -> None:
        self._what, self._timeout = what, timeout
        self._room = threading.BoundedSemaphore(_MOST)

    def __call__(self, act: Callable[[], T]) -> T:
        """Return what `act` returns, or raise what it raises.

        Raises:
            KeyUnavailableError: it doesn't end in time, or too many haven't.
        """
        end = time.monotonic() + self._timeout
        if not self._room.acquire(timeout=self._timeout):
            raise self._too_slow()
        future: Future[T] = Future()
        # a daemon thread: one that hangs doesn't keep the process from ending
        threading.Thread(
            target=self._run, args=(act, future), name="key-provider", daemon=True
        ).start()
        try:
            return future.result(max(0.0, end - time.monotonic()))
        except TimeoutError:
            raise self._too_slow() from None

    def _run(self, act: Callable[[], T], future: Future[T]) -> None:
        try:
            future.set_result(act())
        except BaseException as error:  # noqa: BLE001  (whoever waits raises it)
            future.set_exception(error)
        finally:
            self._room.release()

    def _too_slow(self) -> KeyUnavailableError:
        return KeyUnavailableError(
            f"{self._what} doesn't answer within {self._timeout:g} s", retry_after=self._timeout
        )
