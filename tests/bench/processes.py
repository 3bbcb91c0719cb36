"""What the kernel says of processes: resident memory, and who came from whom."""

from __future__ import annotations

from pathlib import Path


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
    return _status(pid, "VmHWM")


def resident_memory(pid: int) -> int:
    """Return the resident memory of a process."""
    return _status(pid, "VmRSS")


def shared_memory(pid: int) -> int:
    """Return the resident memory of a process that belongs to no file and may have other users."""
    return _status(pid, "RssShmem")


def forget_peak(pid: int) -> None:
    """Let a process's peak begin anew."""
    Path(f"/proc/{pid}/clear_refs").write_text("5")


def _status(pid: int, name: str) -> int:
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    return next(int(line.split()[1]) << 10 for line in lines if line.startswith(f"{name}:"))
