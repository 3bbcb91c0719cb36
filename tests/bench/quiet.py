"""Whether others used the machine meanwhile: a busy neighbour takes one core of two."""

from __future__ import annotations

import os
import time
from typing import TYPE_CHECKING, Final

from sealcar.benching import usage

if TYPE_CHECKING:
    from collections.abc import Iterable

    from sealcar.benching.usage import Counters

_NOISE: Final = 0.06
_TICKS: Final = 1.1 / os.sysconf("SC_CLK_TCK")


class Quiet:
    """Begins now.

    Args:
        pids: of all that are measured; what they wait for counts with them.

    Attributes:
        needed: by pid, once it was asked.
    """

    def __init__(self, pids: Iterable[int]) -> None:
        self._before = {pid: usage.counters(pid) for pid in pids}
        self._all = usage.busy_seconds()
        self._begun = time.monotonic()
        self.needed: dict[int, Counters] = {}

    def was(self, seconds: float | None = None) -> bool:
        """Return whether others used no more than 6 % of a core until now.

        Args:
            seconds: that the sample took; None: since the beginning.
        """
        took = time.monotonic() - self._begun if seconds is None else seconds
        used = usage.busy_seconds() - self._all
        now = {pid: usage.counters(pid) for pid in self._before}
        self.needed = {pid: now[pid].since(self._before[pid]) for pid in now}
        own = sum(each.busy for each in self.needed.values())
        return used - own <= _NOISE * took + _TICKS
