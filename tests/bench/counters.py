"""What the kernel counts of a process: its computing, faults, reading, and memory."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Self

_TICK: Final = os.sysconf("SC_CLK_TCK")
_KIB: Final = 1024


@dataclass(frozen=True)
class Counters:
    """Sums since a process began, with those of its children that it has waited for.

    Attributes:
        busy: seconds on a core.
        minor, major: faults.
        logical, physical: bytes that it read; None where this user may not look.
    """

    busy: float
    minor: int
    major: int
    logical: int | None
    physical: int | None

    @classmethod
    def of(cls, pid: int) -> Self:
        """Read them."""
        fields = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
        minor, minor_of_children, major, major_of_children = map(int, fields[7:11])
        busy = sum(map(int, fields[11:15])) / _TICK
        read = _numbers(pid, "io")
        return cls(
            busy,
            minor + minor_of_children,
            major + major_of_children,
            read.get("rchar"),
            read.get("read_bytes"),
        )

    def since(self, before: Counters) -> Counters:
        """Return what came after another look."""
        return Counters(
            self.busy - before.busy,
            self.minor - before.minor,
            self.major - before.major,
            _difference(self.logical, before.logical),
            _difference(self.physical, before.physical),
        )


@dataclass(frozen=True)
class Memory:
    """Bytes of a process: those that are its alone, and its part of all that it maps."""

    private: int
    proportional: int

    @classmethod
    def of(cls, pid: int) -> Self | None:
        """Look; None where this user may not, and for a process that has ended."""
        found = _numbers(pid, "smaps_rollup")
        if "Pss" not in found:
            return None
        private = found["Private_Clean"] + found["Private_Dirty"]
        return cls(private * _KIB, found["Pss"] * _KIB)

    def or_more(self, other: Memory | None) -> Memory:
        """Return the higher of both, each by itself."""
        if other is None:
            return self
        return Memory(max(self.private, other.private), max(self.proportional, other.proportional))


def family(pid: int) -> list[int]:
    """Return a process and all that came from it and live."""
    found = [pid]
    for each in found:
        try:
            children = Path(f"/proc/{each}/task/{each}/children").read_text().split()
        except (FileNotFoundError, ProcessLookupError):
            continue
        found += map(int, children)
    return found


def peak_memory(pid: int) -> int:
    """Return the most resident memory that a process had since its peak was forgotten."""
    return _numbers(pid, "status")["VmHWM"] * _KIB


def resident_memory(pid: int) -> int:
    """Return the resident memory of a process."""
    return _numbers(pid, "status")["VmRSS"] * _KIB


def shared_memory(pid: int) -> int:
    """Return the resident memory of a process that belongs to no file and may have other users."""
    return _numbers(pid, "status")["RssShmem"] * _KIB


def forget_peak(pid: int) -> None:
    """Let a process's peak begin anew."""
    Path(f"/proc/{pid}/clear_refs").write_text("5")


def busy_seconds() -> float:
    """Return what all processes of the machine computed since it began, and its host took."""
    total = [int(word) for word in Path("/proc/stat").read_text().split("\n")[0].split()[1:]]
    return (sum(total[:3]) + sum(total[5:8])) / _TICK


def free_memory() -> int:
    """Return bytes that nobody uses, not even the page cache."""
    lines = Path("/proc/meminfo").read_text().splitlines()
    return next(int(line.split()[1]) * _KIB for line in lines if line.startswith("MemFree"))


def _numbers(pid: int, name: str) -> dict[str, int]:
    """Return every number of a file of /proc with a name on each line."""
    try:
        lines = Path(f"/proc/{pid}/{name}").read_text().splitlines()
    except (PermissionError, FileNotFoundError, ProcessLookupError):
        return {}
    words = [line.split() for line in lines if ":" in line]
    return {each[0][:-1]: int(each[1]) for each in words if len(each) > 1 and each[1].isdigit()}


def _difference(now: int | None, before: int | None) -> int | None:
    return None if now is None or before is None else now - before
