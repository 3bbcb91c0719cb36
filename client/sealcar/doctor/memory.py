"""Ways out for plaintext in memory, to a disk or another process: judged, nothing is asked here."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from sealcar.doctor.findings import Finding, State

if TYPE_CHECKING:
    from sealcar.doctor.machine import Read

SWAPS: Final = "/proc/swaps"
CORES: Final = "/proc/sys/kernel/core_pattern"
TRACING: Final = "/proc/sys/kernel/yama/ptrace_scope"
_FOR_KEYS: Final = 16 * 1024 * 1024
_MEBIBYTE: Final = 1024 * 1024
_NO_SWAP: Final = "swap to an encrypted device (dm-crypt, a random key at each start), or swapoff"
_HANDLED: Final = {"|": "a program", "@": "a socket"}


def swap(read: Read) -> Finding:
    """Judge where memory is swapped to."""
    text = read(SWAPS)
    if text is None:
        return Finding("swap", State.UNKNOWN, f"{SWAPS} can't be read.", "mount /proc")
    areas = [line.split() for line in text.splitlines()[1:] if line.strip()]
    if not areas:
        return Finding("swap", State.OK, "Nothing is swapped.")
    kept = {area[0]: _is_kept(area[0], read) for area in areas}
    plain = [name for name, safe in kept.items() if safe is False]
    if plain:
        told = f"Memory is swapped to {', '.join(plain)} as it is, plaintext of models with it."
        return Finding("swap", State.PROBLEM, told, _NO_SWAP)
    unseen = [name for name, safe in kept.items() if safe is None]
    if unseen:
        told = f"Memory is swapped to {', '.join(unseen)}; whether encrypted can't be seen."
        return Finding("swap", State.WEAKER, told, f"make sure that it is: {_NO_SWAP}")
    told = f"What is swapped to {', '.join(kept)} is encrypted, or stays in memory."
    return Finding("swap", State.OK, told)


def _is_kept(device: str, read: Read) -> bool | None:
    """Tell whether what is swapped there can't be read from a disk; None: it can't be seen."""
    # a file's disk may be encrypted as a whole, and so may a volume's below it
    found = re.fullmatch(r"/dev/((?:dm-|zram)\d+)", device)
    if not found:
        mapped = device.startswith("/dev/mapper/")
        return False if device.startswith("/dev/") and not mapped else None
    if found[1].startswith("zram"):
        backing = read(f"/sys/block/{found[1]}/backing_dev")
        return True if backing is not None and backing.strip() == "none" else None
    uuid = read(f"/sys/block/{found[1]}/dm/uuid")
    return True if uuid is not None and uuid.startswith("CRYPT-") else None


def cores(read: Read, limit: int) -> Finding:
    """Judge where the memory of a program that crashes goes.

    Args:
        read: gives the kernel's files.
        limit: RLIMIT_CORE of this process; negative: none.
    """
    pattern = read(CORES)
    if pattern is None:
        return Finding("cores", State.UNKNOWN, f"{CORES} can't be read.", "mount /proc")
    handler = _HANDLED.get(pattern[:1])
    if handler:
        return Finding(
            "cores",
            State.WEAKER,
            f"The memory of whatever crashes is given to {handler}, whatever RLIMIT_CORE says "
            f"(core_pattern: {pattern.strip()}).",
            'set kernel.core_pattern to "core" and RLIMIT_CORE to 0 where models are run, or have '
            "that handler keep nothing (systemd: Storage=none in coredump.conf)",
        )
    if limit:
        return Finding(
            "cores",
            State.WEAKER,
            "A program that is started from here writes its memory to a file when it crashes.",
            "set RLIMIT_CORE to 0 where models are run (ulimit -c 0, LimitCORE=0)",
        )
    return Finding("cores", State.OK, "A program that is started from here writes no core.")


def tracing(read: Read) -> Finding:
    """Judge whether processes of one user may look into each other."""
    scope = (read(TRACING) or "").strip()
    if scope in {"", "0"}:
        how = "kernel.yama.ptrace_scope is 0" if scope else "the kernel has no Yama"
        return Finding(
            "tracing",
            State.WEAKER,
            f"A process may look into any other of its user, one that runs models too: {how}.",
            "set kernel.yama.ptrace_scope to 1 or more, with Yama among the kernel's lsm=",
        )
    return Finding("tracing", State.OK, f"Processes are kept apart (ptrace_scope {scope}).")


def locking(limit: int) -> Finding:
    """Judge how much memory a daemon could keep from being swapped.

    Args:
        limit: the hard RLIMIT_MEMLOCK of this process, which a daemon raises its own to;
            negative: none.
    """
    if limit < 0:
        return Finding("memlock", State.OK, "A daemon started from here can lock all its memory.")
    told = f"A daemon started from here can lock {limit // _MEBIBYTE} MiB"
    if limit <= _FOR_KEYS:
        return Finding(
            "memlock",
            State.WEAKER,
            f"{told}, which 16 MiB for keys leave nothing of: shared weights may be swapped.",
            "raise RLIMIT_MEMLOCK to 16 MiB and the weights that are shared (LimitMEMLOCK of the "
            "systemd unit)",
        )
    return Finding("memlock", State.OK, f"{told}, 16 MiB of it for keys.")
