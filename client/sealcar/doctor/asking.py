"""Asks this machine what it can do, in ways that change nothing."""

from __future__ import annotations

import ctypes
import os
import resource
import socket
from pathlib import Path
from typing import TYPE_CHECKING, Final

from sealcar.doctor import machine, memory
from sealcar.doctor.machine import Handles

if TYPE_CHECKING:
    from sealcar.doctor.findings import Finding

# not named in Python
_SO_PASSPIDFD: Final = 76
_SO_PEERPIDFD: Final = 77
_LANDLOCK_CREATE: Final = 444  # the same on every architecture
_ASK_VERSION: Final = 1


def this_machine() -> list[Finding]:
    """Look at everything that needs no daemon."""
    _, locked = resource.getrlimit(resource.RLIMIT_MEMLOCK)
    core, _ = resource.getrlimit(resource.RLIMIT_CORE)
    return [
        machine.kernel(read),
        machine.identity(handles()),
        machine.landlock(*landlock_version()),
        machine.seccomp(read, os.uname().machine),
        memory.swap(read),
        memory.cores(read, core),
        memory.tracing(read),
        memory.locking(locked),
        machine.huge_pages(read),
        machine.aes(read),
    ]


def read(path: str) -> str | None:
    """Return the text of a file of the kernel, or None."""
    try:
        return Path(path).read_text(encoding="utf-8", errors="replace")
    except OSError:
        return None


def handles() -> Handles:
    """Ask which handles on processes there are, by taking some on this one."""
    one, other = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    with one, other:
        try:
            os.close(one.getsockopt(socket.SOL_SOCKET, _SO_PEERPIDFD))
            peer = True
        except OSError:
            peer = False
        try:
            one.setsockopt(socket.SOL_SOCKET, _SO_PASSPIDFD, 1)
            sender = True
        except OSError:
            sender = False
    try:
        mine = os.pidfd_open(os.getpid())
    except OSError:
        return Handles(process=False, unique=False, peer=peer, sender=sender)
    try:
        return Handles(process=True, unique=_names_a_process(mine), peer=peer, sender=sender)
    finally:
        os.close(mine)


def _names_a_process(handle: int) -> bool:
    """Tell it from other anonymous descriptors, which shared one inode before Linux 6.9."""
    counter = os.eventfd(0, os.EFD_CLOEXEC)
    try:
        a, b = os.fstat(counter), os.fstat(handle)
    finally:
        os.close(counter)
    return (a.st_dev, a.st_ino) != (b.st_dev, b.st_ino)


def landlock_version() -> tuple[int, str]:
    """Return the kernel's version of Landlock; 0 if there is none, with the reason."""
    library = ctypes.CDLL(None, use_errno=True)
    library.syscall.restype = ctypes.c_long
    version = library.syscall(
        ctypes.c_long(_LANDLOCK_CREATE), None, ctypes.c_size_t(0), ctypes.c_uint32(_ASK_VERSION)
    )
    if version < 0:
        return 0, os.strerror(ctypes.get_errno())
    return int(version), ""
