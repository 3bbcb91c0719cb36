"""Questions to a bucket: asked again while it makes sense, answered by a typed error in the end."""

from __future__ import annotations

import random
import time
from typing import TYPE_CHECKING, Final, Protocol, TypeVar

from sealcar.errors import SealcarError
from sealcar_server.store.bucket import answers

if TYPE_CHECKING:
    from collections.abc import Callable

T = TypeVar("T")
_FIRST_PAUSE: Final = 0.05  # seconds; each one after it at most twice as long
_LONGEST_PAUSE: Final = 5.0


class Observer(Protocol):
    """Is told of every request."""

    def asked(self, kind: str, outcome: str) -> None:
        """Count a request: "ok", "absent", "conflict", "again" (it is repeated) or "failed"."""

    def moved(self, direction: str, size: int) -> None:
        """Count bytes of objects: "in" from the bucket, "out" to it."""


class Unobserved:
    """Nobody is."""

    def asked(self, kind: str, outcome: str) -> None:
        """Count nothing."""

    def moved(self, direction: str, size: int) -> None:
        """Count nothing."""


class Asking:
    """Asks; safe to share between threads.

    Args:
        patience: seconds within which what fails for now is asked again.
        observer: is told.
    """

    def __init__(self, patience: float, observer: Observer) -> None:
        self._patience, self._observer = patience, observer

    def ask(self, kind: str, key: str, act: Callable[[], T], *, patience: float = 0) -> T:
        """Return what `act` returns.

        Args:
            kind: of request, as it is counted.
            key: of the object, for messages.
            act: asks once.
            patience: instead of the usual one.

        Raises:
            NotFoundError: there is no such object.
            AlreadyExistsError, ConflictError: the condition of a write isn't met.
            NotAuthenticError: the object was replaced, or the bucket has what no store has.
            ExhaustedError: the bucket is full.
            StorageError: it can't be reached, refuses, or answers wrongly.
        """
        end = time.monotonic() + (patience or self._patience)
        pause = _FIRST_PAUSE
        while True:
            try:
                found = act()
            except SealcarError:
                self._observer.asked(kind, "failed")
                raise
            except Exception as error:  # noqa: BLE001  (the library's, which it has no one class for)
                wait = random.uniform(0, pause)  # noqa: S311  (so that not all come at once)
                if not answers.passes(error) or time.monotonic() + wait >= end:
                    raise self._failed(kind, key, error) from None
                self._observer.asked(kind, "again")
                time.sleep(wait)
                pause = min(2 * pause, _LONGEST_PAUSE)
            else:
                self._observer.asked(kind, "ok")
                return found

    def _failed(self, kind: str, key: str, error: Exception) -> SealcarError:
        outcome, found = answers.failure(kind, key, error)
        self._observer.asked(kind, outcome)
        return found
