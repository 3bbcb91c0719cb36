"""One after the other, but only where they meet: a lock for each of many things."""

from __future__ import annotations

import threading


class Turns:
    """Safe to share between threads."""

    def __init__(self) -> None:
        self._locks: dict[tuple[str, ...], threading.Lock] = {}

    def of(self, *names: str) -> threading.Lock:
        """Return the lock of what has these names; equal names have one lock, for ever."""
        return self._locks.setdefault(names, threading.Lock())
