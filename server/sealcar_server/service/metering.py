"""What the service tells whoever measures it."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Final, Protocol

from sealcar_server import spans

if TYPE_CHECKING:
    from types import TracebackType


class Meter(Protocol):
    """Takes measurements; must be fast and safe to call from any thread."""

    def seconds(self, phase: str, value: float) -> None:
        """A phase took this long: "key", "open", "verify", "prefetch", "seal" or "publish"."""

    def prefetched(self, delivery: str, count: int) -> None:
        """So many plaintext bytes were got ready: in the "cache", or in a "segment"."""


class _Unmetered:
    def seconds(self, phase: str, value: float) -> None:
        """Forget it."""

    def prefetched(self, delivery: str, count: int) -> None:
        """Forget it."""


UNMETERED: Final[Meter] = _Unmetered()


class timed:  # noqa: N801  (used as a function)
    """Measure what happens inside, failures included; a span of the request that it is for."""

    __slots__ = ("_meter", "_phase", "_span", "_start")

    def __init__(self, meter: Meter, phase: str) -> None:
        self._meter, self._phase = meter, phase
        self._span = spans.span(phase)

    def __enter__(self) -> None:
        self._start = time.monotonic()
        self._span.__enter__()

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._meter.seconds(self._phase, time.monotonic() - self._start)
        self._span.__exit__(kind, error, trace)
