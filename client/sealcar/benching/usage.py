"""What a process needed, as the kernel counts it; None where this user may not look."""

from __future__ import annotations

import os
import threading
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Final, Self

if TYPE_CHECKING:
    from collections.abc import Mapping

_TICK: Final = os.sysconf("SC_CLK_TCK")
_PERIOD: Final = 0.01


@dataclass(frozen=True)
class Memory:
    """Bytes of a process: its alone, and these with its part of what it shares."""

    private: int
    proportional: int

    def or_more(self, other: Memory | None) -> Memory:
        """Return the higher of both, each by itself."""
        if other is None:
            return self
        return Memory(max(self.private, other.private), max(self.proportional, other.proportional))


@dataclass(frozen=True)
class Counters:
    """What only grows: page faults, bytes that files were asked for, and that came from a device.

    What children needed that were waited for is in it, but for bytes.

    Attributes:
        minor_faults: pages that were touched first, or mapped.
        major_faults: pages that were waited for.
        logical_read: bytes; mapped files don't count.
        physical_read: bytes.
        busy: seconds on a core.
    """

    minor_faults: int
    major_faults: int
    logical_read: int | None
    physical_read: int | None
    busy: float = 0.0

    def since(self, before: Counters) -> Counters:
        """Return what came since then."""
        return Counters(
            self.minor_faults - before.minor_faults,
            self.major_faults - before.major_faults,
            _less(self.logical_read, before.logical_read),
            _less(self.physical_read, before.physical_read),
            self.busy - before.busy,
        )


def _less(after: int | None, before: int | None) -> int | None:
    return None if after is None or before is None else after - before


def counters(pid: int) -> Counters:
    """Return what a process has needed since it began."""
    fields = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
    minor, minor_of_children, major, major_of_children, *times = map(int, fields[7:15])
    io = _io(pid)
    return Counters(
        minor + minor_of_children,
        major + major_of_children,
        io.get("rchar"),
        io.get("read_bytes"),
        sum(times) / _TICK,
    )


def memory(pid: int) -> Memory | None:
    """Return what a process has now."""
    try:
        text = Path(f"/proc/{pid}/smaps_rollup").read_text()
    except OSError:  # another user's, or one that gave up being looked into
        return None
    found: dict[str, int] = {}
    for line in text.splitlines()[1:]:
        words = line.split()
        found[words[0]] = int(words[1]) << 10
    private = sum(found.get(name, 0) for name in ("Private_Clean:", "Private_Dirty:"))
    return Memory(private + found.get("Private_Hugetlb:", 0), found.get("Pss:", 0))


def _io(pid: int) -> Mapping[str, int]:
    try:
        text = Path(f"/proc/{pid}/io").read_text()
    except OSError:  # the same
        return {}
    return {name: int(value) for name, value in (each.split(": ") for each in text.splitlines())}


def busy_seconds() -> float:
    """Return the seconds that cores have worked, for anybody, or were taken by the host."""
    total = [int(word) for word in Path("/proc/stat").read_text().split("\n")[0].split()[1:]]
    return (sum(total[:3]) + sum(total[5:8])) / _TICK


@dataclass
class Peaks:
    """The most memory of some processes, looked at a hundred times a second in a `with` block.

    Looking slows them down: what they take meanwhile isn't for timing.
    """

    pids: Mapping[str, int]
    found: dict[str, Memory] = field(default_factory=dict)

    def __enter__(self) -> Self:
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._look, daemon=True)
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self._thread.join()

    def _look(self) -> None:
        while not self._over.wait(_PERIOD):
            self.look()

    def look(self) -> None:
        """Look once more."""
        for role, pid in self.pids.items():
            if now := memory(pid):
                self.found[role] = now.or_more(self.found.get(role))
