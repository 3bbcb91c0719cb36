"""Long work on a thread of its own, whose progress somebody else reads as it comes."""

from __future__ import annotations

import threading
from contextvars import copy_context
from typing import TYPE_CHECKING, Final, Generic, NamedTuple, Protocol, TypeVar

from sealcar.errors import UnavailableError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

T = TypeVar("T")
# clients give up after half a minute of silence, or sooner if they were told so
_REPEAT: Final = 2.0


class Step(NamedTuple):
    """How far the work is, in bytes, at which payload, and with what it can be gone on with."""

    done: int
    total: int
    payload: str
    token: str = ""


class Report(Protocol):
    """What the work calls; it raises once nobody waits for the result any more."""

    def __call__(self, done: int, total: int, payload: str, token: str = "", /) -> None:
        """Say how far it is."""


class Reporting(Generic[T]):
    """Runs `work`, which reports through the function that it is given.

    A reader that is slow misses steps, and holds nothing up; one that goes away ends the work at
    its next report.

    Args:
        work: what is done.
        repeat: seconds after which the last step is told again when there is no new one, so that
            whoever waits knows that the work goes on.
    """

    def __init__(self, work: Callable[[Report], T], *, repeat: float = _REPEAT) -> None:
        self._work, self._repeat = work, repeat
        self._last = Step(0, 0, "")
        self._changed = threading.Condition()
        self._latest: Step | None = None
        self._ended = False
        self._abandoned = False
        self._results: list[T] = []
        self._failure: Exception | None = None
        self._thread = threading.Thread(
            target=copy_context().run, args=(self._run,), name="long-work", daemon=True
        )

    def steps(self) -> Iterator[Step]:
        """Start the work and yield how far it is until it has ended, well or not."""
        self._thread.start()
        try:
            while (step := self._next()) is not None:
                yield step
        finally:
            self._abandoned = True
            self._thread.join()

    def result(self) -> T:
        """Return what came of it, or raise what it raised; only after `steps` has ended."""
        if self._failure is not None:
            raise self._failure
        return self._results[0]

    def _next(self) -> Step | None:
        with self._changed:
            while self._latest is None and not self._ended:
                if not self._changed.wait(self._repeat):
                    self._latest = self._last
            step, self._latest = self._latest, None
            self._last = step or self._last
            return step

    def _report(self, done: int, total: int, payload: str, token: str = "", /) -> None:
        if self._abandoned:
            raise UnavailableError("nobody waits for the result any more")
        with self._changed:
            self._latest = Step(done, total, payload, token)
            self._changed.notify()

    def _run(self) -> None:
        try:
            self._results.append(self._work(self._report))
        except Exception as error:  # noqa: BLE001  (raised again by `result`, on the reader's thread)
            self._failure = error
        finally:
            with self._changed:
                self._ended = True
                self._changed.notify()
