"""Honest seconds: ways take turns, and every sample finds the memory as warm as the others did."""

from __future__ import annotations

import ctypes
import mmap
import os
import statistics
import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

_TICK: Final = os.sysconf("SC_CLK_TCK")
_SPARE: Final = 300 << 20
_NOISE: Final = 0.06
_HUGE: Final = 2 << 20


@dataclass(frozen=True)
class Samples:
    """What one way took.

    Attributes:
        seconds: of the samples that count.
        disturbed: samples in which others used more than 6 % of a core; they count only if
            less than half of what was wanted came out calm.
    """

    seconds: tuple[float, ...]
    disturbed: int

    @property
    def median(self) -> float:
        return statistics.median(self.seconds)


class FreshBuffer:
    """Memory that nobody has touched, at some bytes behind a page's start."""

    def __init__(self, size: int, offset: int = 64) -> None:
        self._map = mmap.mmap(-1, size + 4096, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
        self.view = memoryview(self._map)[offset : offset + size]
        self.size = size
        self.address = ctypes.addressof(ctypes.c_char.from_buffer(self._map)) + offset


def take_turns(
    ways: Mapping[str, Callable[[], float]], *, rounds: int, size: int, mine: Iterable[int]
) -> dict[str, Samples]:
    """Run every way `rounds` times, once more to warm up, in alternating order.

    Each returns the seconds that count. At most twice as many samples are taken to find
    undisturbed ones.
    """
    kept: dict[str, list[float]] = {name: [] for name in ways}
    disturbed: dict[str, list[float]] = {name: [] for name in ways}
    pids = list(mine)
    for name in ways:
        ways[name]()
    for turn in range(2 * rounds):
        for name in list(ways)[:: 1 if turn % 2 else -1]:
            if len(kept[name]) >= rounds:
                continue
            _touch_free_memory(3 * size)
            others, started = _busy_of_others(pids), time.monotonic()
            took = ways[name]()
            whole = time.monotonic() - started
            calm = _busy_of_others(pids) - others <= _NOISE * whole + 1.1 / _TICK
            (kept if calm else disturbed)[name].append(took)
    return {name: _samples(kept[name], disturbed[name], enough=rounds // 2 + 1) for name in ways}


def _samples(calm: list[float], disturbed: list[float], *, enough: int) -> Samples:
    counted = calm if len(calm) >= enough else calm + disturbed
    return Samples(tuple(counted), len(disturbed))


def peak_memory(pid: int) -> int:
    """Return the most resident memory that a process ever had."""
    return _status(pid, "VmHWM")


def resident_memory(pid: int) -> int:
    """Return the resident memory of a process."""
    return _status(pid, "VmRSS")


def forget_peak(pid: int) -> None:
    """Let a process's peak begin anew."""
    Path(f"/proc/{pid}/clear_refs").write_text("5")


def _status(pid: int, name: str) -> int:
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    return next(int(line.split()[1]) << 10 for line in lines if line.startswith(name + ":"))


def _busy_of_others(mine: list[int]) -> float:
    total = [int(word) for word in Path("/proc/stat").read_text().split("\n")[0].split()[1:]]
    used = sum(total[:3]) + sum(total[5:8])
    for pid in mine:
        fields = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
        used -= int(fields[11]) + int(fields[12])
    return used / _TICK


def _touch_free_memory(most: int) -> None:
    """A virtual machine gives idle memory back to its host; fetching it again isn't measured."""
    lines = Path("/proc/meminfo").read_text().splitlines()
    free = next(int(line.split()[1]) << 10 for line in lines if line.startswith("MemFree"))
    size = min(most, free - _SPARE) // _HUGE * _HUGE
    if size > 0:
        memory = mmap.mmap(-1, size, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
        memory.madvise(mmap.MADV_HUGEPAGE)
        ctypes.memset(ctypes.addressof(ctypes.c_char.from_buffer(memory)), 1, size)
