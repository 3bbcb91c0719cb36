"""Who was refused before anything was decided: one line a second for each caller and reason.

Whoever may connect may be refused as often as he likes, so a line for each would let him fill the
disk. The first refusal has its line at once; those that follow within a second are counted.
"""

from __future__ import annotations

import threading
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, TypeAlias

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

_INTERVAL: Final = 1.0
MOST: Final = 64  # callers and reasons with lines of their own; all others share one
_Key: TypeAlias = tuple[tuple[tuple[str, Any], ...], str]
_OTHERS: Final[_Key] = ((("others", True),), "any")


@dataclass
class _Told:
    at: float
    count: int = 0


class Refusals:
    """Thread-safe.

    Args:
        write: takes who it was, the reason, and how many refusals the line stands for.
    """

    def __init__(self, write: Callable[[Mapping[str, Any], str, int], None]) -> None:
        self._write = write
        self._lock = threading.Lock()
        self._known: dict[_Key, _Told] = {}

    def note(self, who: Mapping[str, Any], reason: str) -> None:
        """Account for one."""
        key: _Key = (tuple(who.items()), reason)
        now = time.monotonic()
        with self._lock:
            if key not in self._known and len(self._known) >= MOST:
                key = _OTHERS
            known = self._known.get(key)
            if known is not None:
                known.count += 1
                return
            self._known[key] = _Told(now)
        self._tell(key, 1)

    def flush(self, *, all_of_it: bool = False) -> None:
        """Write what was counted for a second, or all of it. Called now and then."""
        due = time.monotonic() - (0.0 if all_of_it else _INTERVAL)
        with self._lock:
            ripe = {key: told.count for key, told in self._known.items() if told.at <= due}
            for key, count in ripe.items():
                # who was quiet for a second has a line at once again
                if count:
                    self._known[key] = _Told(time.monotonic())
                else:
                    del self._known[key]
        for key, count in ripe.items():
            if count:
                self._tell(key, count)

    def _tell(self, key: _Key, count: int) -> None:
        who, reason = key
        self._write(dict(who), reason, count)
