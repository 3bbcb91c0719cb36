"""What those who move bytes tell whoever measures it."""

from __future__ import annotations

from typing import Protocol


class Meter(Protocol):
    """Takes measurements; must be fast and safe to call from any thread."""

    def moved(self, direction: str, delivery: str, count: int, /) -> None:
        """Count plaintext bytes.

        Args:
            direction: "read" or "write".
            delivery: "ring", "stream", "packet" or "segment".
            count: bytes.
        """

    def spent(self, phase: str, seconds: float, /) -> None:
        """Take the time of a phase: "read", "decrypt", "memory" (waiting for it), "fill"…."""

    def transferred(self, direction: str, delivery: str, seconds: float, /) -> None:
        """Take the time of a transfer, from its start to its end, well or not."""

    def shared(self, count: int, locked: int, unlocked: int, /) -> None:
        """Take how many segments there are, and their bytes that are locked in memory or not."""

    def denied(self, rule: str, /) -> None:
        """Count a refusal: "peer" for a packet from a process that isn't the one that attested."""
