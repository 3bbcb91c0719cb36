"""Whoever is told how the demonstration goes."""

from __future__ import annotations

from typing import Protocol


class Narrator(Protocol):
    """Hears about every step."""

    def say(self, text: str) -> None:
        """Hear what happens next."""

    def step(self, text: str, done: int, total: int) -> None:
        """Hear how far something is."""
