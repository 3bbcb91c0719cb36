"""What the kernel and the processor offer, judged from what they say; nothing is asked here."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, TypeAlias

from sealcar.doctor.findings import Finding, State

# gives the text of a file of the kernel, or None if it can't be read
Read: TypeAlias = Callable[[str], str | None]

RELEASE: Final = "/proc/sys/kernel/osrelease"
PROCESSOR: Final = "/proc/cpuinfo"
PROCESS: Final = "/proc/self/status"
HUGE_PAGES: Final = "/sys/kernel/mm/transparent_hugepage/enabled"
ACTIONS: Final = "/proc/sys/kernel/seccomp/actions_avail"

_OLDEST: Final = (5, 14)
_WHOLE_IDENTITY: Final = "run Linux 6.9 or later"
_FIRST_LANDLOCK: Final = 2
_LANDLOCK_PORTS: Final = 4
_LANDLOCK_SIGNALS: Final = 6
_FILTERED: Final = ("x86_64", "aarch64")
# what AES-GCM takes, by the line of the file that lists it: x86-64, then aarch64
_INSTRUCTIONS: Final = {"flags": {"aes", "pclmulqdq"}, "features": {"aes", "pmull"}}


@dataclass(frozen=True)
class Handles:
    """What the kernel gives a daemon to know its clients by.

    Attributes:
        process: there are handles on processes at all.
        unique: a handle's inode names its process (Linux 6.9).
        peer: SO_PEERPIDFD, the very process that connected (Linux 6.5).
        sender: SO_PASSPIDFD, the very process that sent a packet (Linux 6.5).
    """

    process: bool
    unique: bool
    peer: bool
    sender: bool


def kernel(read: Read) -> Finding:
    """Judge the kernel's release."""
    release = (read(RELEASE) or "").strip()
    found = re.match(r"(\d+)\.(\d+)", release)
    if not found:
        return Finding("kernel", State.UNKNOWN, f"{RELEASE} names no release of Linux.")
    if (int(found[1]), int(found[2])) < _OLDEST:
        return Finding(
            "kernel",
            State.PROBLEM,
            f"Linux {release} is older than 5.14, the oldest that sealcar is made for.",
            _WHOLE_IDENTITY,
        )
    return Finding("kernel", State.OK, f"Linux {release} is new enough.")


def identity(handles: Handles) -> Finding:
    """Judge how surely a daemon on this kernel knows a client's process."""
    if not handles.process:
        return Finding(
            "identity",
            State.WEAKER,
            "A session could only be a connection here (connection), since this kernel or "
            "container gives no handle on processes.",
            f"{_WHOLE_IDENTITY}, and a runtime that allows pidfd_open",
        )
    missing = [
        name
        for name, there in (("SO_PEERPIDFD", handles.peer), ("SO_PASSPIDFD", handles.sender))
        if not there
    ]
    without = f", without {' and '.join(missing)}" if missing else ""
    if not handles.unique:
        text = f"A session ends with its process (pidfd-shared), a weaker identity{without}."
        return Finding("identity", State.WEAKER, text, _WHOLE_IDENTITY)
    if missing:
        text = f"A session is its process (pidfd){without}: who sends is known by his pid only."
        return Finding("identity", State.WEAKER, text, _WHOLE_IDENTITY)
    return Finding("identity", State.OK, "A session is its process, for certain (pidfd).")


def landlock(version: int, reason: str = "") -> Finding:
    """Judge the kernel's version of Landlock; 0: none, for that reason."""
    if version < _FIRST_LANDLOCK:
        told = f"version {version}" if version else f"none: {reason}"
        return Finding(
            "landlock",
            State.WEAKER,
            f"A daemon here can't close files to itself, which takes Landlock 2 ({told}).",
            "run Linux 5.19 or later with landlock among the kernel's lsm=, and a container "
            "runtime that allows it",
        )
    if version < _LANDLOCK_SIGNALS:
        ports = "TCP ports, " if version < _LANDLOCK_PORTS else ""
        return Finding(
            "landlock",
            State.WEAKER,
            f"Landlock {version} closes files, but not {ports}signals and abstract sockets.",
            "run Linux 6.12 or later",
        )
    text = f"Landlock {version} closes files, TCP ports, signals and abstract sockets."
    return Finding("landlock", State.OK, text)


def seccomp(read: Read, architecture: str) -> Finding:
    """Judge whether a daemon can have its system calls filtered."""
    if architecture not in _FILTERED:
        return Finding(
            "seccomp",
            State.WEAKER,
            f"A daemon here filters no system calls: those of {architecture} aren't known to it.",
            "run the daemon on x86-64 or aarch64",
        )
    status = read(PROCESS)
    if status is None:
        return Finding("seccomp", State.UNKNOWN, f"{PROCESS} can't be read.", "mount /proc")
    actions = read(ACTIONS)
    if "\nSeccomp:" not in status or (actions is not None and "errno" not in actions.split()):
        return Finding(
            "seccomp",
            State.WEAKER,
            "This kernel filters no system calls.",
            "run a kernel with CONFIG_SECCOMP_FILTER",
        )
    return Finding("seccomp", State.OK, "System calls can be filtered.")


def huge_pages(read: Read) -> Finding:
    """Judge whether large payloads can lie in large pages."""
    chosen = re.search(r"\[(\w+)\]", read(HUGE_PAGES) or "")
    if not chosen:
        return Finding("huge pages", State.UNKNOWN, f"{HUGE_PAGES} says nothing.")
    if chosen[1] == "never":
        return Finding(
            "huge pages",
            State.WEAKER,
            "Transparent huge pages are switched off, so large payloads load more slowly.",
            f'write "madvise" to {HUGE_PAGES}',
        )
    return Finding("huge pages", State.OK, f"Transparent huge pages are set to {chosen[1]}.")


def aes(read: Read) -> Finding:
    """Judge whether the processor computes AES-GCM itself."""
    text = read(PROCESSOR) or ""
    listed = re.search(r"^(flags|features)\s*:(.*)$", text, re.MULTILINE | re.IGNORECASE)
    if not listed:
        return Finding("aes", State.UNKNOWN, f"{PROCESSOR} doesn't list what the processor can do.")
    missing = sorted(_INSTRUCTIONS[listed[1].lower()] - {*listed[2].split()})
    if missing:
        return Finding(
            "aes",
            State.WEAKER,
            f"The processor lacks {', '.join(missing)}, so opening payloads takes many times "
            "as long.",
            "use a processor with them, or let the virtual machine see the host's",
        )
    return Finding("aes", State.OK, "The processor has the instructions for AES-GCM.")
