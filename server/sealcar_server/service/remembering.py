"""The generations that were opened last, so that not every request parses a manifest again."""

from __future__ import annotations

import threading
from collections import OrderedDict
from typing import TYPE_CHECKING, TypeAlias

if TYPE_CHECKING:
    from sealcar_server.service.opened import OpenedPackage

Key: TypeAlias = tuple[str, str, int]


class Remembered:
    """Forgets what was asked for least lately; safe to share between threads.

    Args:
        most: how many are kept.
        most_bytes: of how many bytes of manifests together; the last one is kept in any case.
    """

    def __init__(self, most: int, most_bytes: int) -> None:
        self._most, self._most_bytes = most, most_bytes
        self._lock = threading.Lock()
        self._opened: OrderedDict[Key, OpenedPackage] = OrderedDict()

    def get(self, key: Key) -> OpenedPackage | None:
        """Return a generation by package, version and number, if it is remembered."""
        with self._lock:
            found = self._opened.get(key)
            if found is not None:
                self._opened.move_to_end(key)
            return found

    def all(self) -> list[Key]:
        """Return which generations are remembered."""
        with self._lock:
            return list(self._opened)

    def forget(self, key: Key) -> None:
        """Forget a generation; fine if it isn't remembered."""
        with self._lock:
            self._opened.pop(key, None)

    def put(self, opened: OpenedPackage) -> None:
        """Remember a generation."""
        place = opened.place
        with self._lock:
            self._opened[place.name, place.version, place.number] = opened
            size = sum(one.size for one in self._opened.values())
            while len(self._opened) > 1 and (
                len(self._opened) > self._most or size > self._most_bytes
            ):
                _, oldest = self._opened.popitem(last=False)
                size -= oldest.size
