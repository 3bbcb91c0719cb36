"""Which generations are in use: what is pruned leaves them, and what is removed ends their use.

A generation is in use for ten minutes after somebody opened it, or took a step in reading,
checking or exporting it, and while a transaction is based on it (the registry knows those).
Whoever opens a variant goes on to its payloads, one after the other and by the number of the
generation, so ten minutes without a step mean that he is done. If he isn't, he finds that it is
gone, and opens the package anew. Nobody's process has to be watched for that, and one that has
loaded its model and runs for a year holds nothing.
"""

from __future__ import annotations

import threading
import time
from collections import OrderedDict
from typing import TYPE_CHECKING, Final, TypeAlias

from sealcar.errors import NotFoundError

if TYPE_CHECKING:
    from collections.abc import Iterable

    from sealcar_server.store.generation import Generation

LATELY: Final = 600.0  # seconds
REMOVED: Final = 16_384  # generations that are known to be removed; those before are forgotten

_Key: TypeAlias = tuple[str, str, int]


class Uses:
    """Safe to share between threads.

    Args:
        lately: for how many seconds a generation is in use after somebody used it.
    """

    def __init__(self, lately: float = LATELY) -> None:
        self._lately = lately
        self._lock = threading.Lock()
        self._used: OrderedDict[_Key, float] = OrderedDict()
        # numbers are never used twice, so what is in here stays true; whoever still uses one that
        # is forgotten finds its files gone
        self._removed: dict[_Key, None] = {}

    def note(self, place: Generation) -> None:
        """Note that somebody uses a generation.

        Raises:
            NotFoundError: it was removed.
        """
        now = time.monotonic()
        key = (place.name, place.version, place.number)
        with self._lock:
            if key in self._removed:
                raise NotFoundError("the generation was removed meanwhile: open the package anew")
            self._used[key] = now
            self._used.move_to_end(key)
            while now - next(iter(self._used.values())) > self._lately:
                self._used.popitem(last=False)

    def includes(self, name: str, version: str, number: int) -> bool:
        """Tell whether a generation is in use, but for transactions."""
        with self._lock:
            used = self._used.get((name, version, number))
        return used is not None and time.monotonic() - used <= self._lately

    def end(self, name: str, version: str, numbers: Iterable[int]) -> None:
        """Note that generations were removed, so that whoever uses them notices."""
        with self._lock:
            self._removed.update(((name, version, number), None) for number in numbers)
            while len(self._removed) > REMOVED:
                del self._removed[next(iter(self._removed))]
