"""Whether others used the machine meanwhile, where much of the work is the kernel's own.

What the kernel does for a network and for writing back is nobody's, and would look like somebody
else's: so the others' processes are counted, and what the host took.
"""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterable

_TICK: Final = os.sysconf("SC_CLK_TCK")
_NOISE: Final = 0.06
_KERNEL: Final = 0x00200000  # the flag of a thread of the kernel's
_STOLEN: Final = 8  # the column of /proc/stat


class Neighbours:
    """Begins now.

    Args:
        ours: processes that are measured.
    """

    def __init__(self, ours: Iterable[int]) -> None:
        self._ours = frozenset(ours)
        self._before, self._stolen = self._computed(), _stolen()
        self._begun = time.monotonic()

    def were_quiet(self) -> bool:
        """Return whether they used no more than 6 % of a core until now."""
        took = time.monotonic() - self._begun
        used = sum(
            max(ticks - self._before.get(pid, 0), 0) for pid, ticks in self._computed().items()
        )
        return (used + _stolen() - self._stolen) / _TICK <= _NOISE * took + 1.1 / _TICK

    def _computed(self) -> dict[int, int]:
        """Return the ticks of every other process, with those of children that it waited for."""
        found = {}
        for place in Path("/proc").glob("[0-9]*"):
            pid = int(place.name)
            if pid in self._ours:
                continue
            try:
                fields = (place / "stat").read_text().rsplit(")", 1)[1].split()
            except (FileNotFoundError, ProcessLookupError):  # it ended
                continue
            if not int(fields[6]) & _KERNEL:
                # those that init waits for were counted as their own
                found[pid] = sum(map(int, fields[11 : 13 if pid == 1 else 15]))
        return found


def _stolen() -> int:
    return int(Path("/proc/stat").read_text().split("\n", 1)[0].split()[_STOLEN])
