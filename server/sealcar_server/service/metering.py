"""What the service tells whoever measures it."""

from __future__ import annotations

import time
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final, Protocol

if TYPE_CHECKING:
    from collections.abc import Iterator


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


@contextmanager
def timed(meter: Meter, phase: str) -> Iterator[None]:
    """Measure what happens inside, failures included."""
    start = time.monotonic()
    try:
        yield
    finally:
        meter.seconds(phase, time.monotonic() - start)
