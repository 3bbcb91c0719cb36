"""A kernel from before 6.5, as far as a process can tell: no SO_PEERPIDFD and no SO_PASSPIDFD.

The real kernel refuses both, by a filter of system calls that the process and its children inherit.
"""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING, Final

from support.daemon import Daemon
from support.pid_namespace import Sidecar

if TYPE_CHECKING:
    from collections.abc import Sequence

_PROGRAM: Final = """
import ctypes, errno, os, struct, sys

SOCKET_CALLS = {"x86_64": (54, 55), "aarch64": (208, 209)}
PASS_PIDFD, PEER_PIDFD = 76, 77
LOAD, EQUAL, RETURN, ALLOW, FAIL = 0x20, 0x15, 0x06, 0x7FFF0000, 0x00050000
NO_NEW_PRIVILEGES, SECCOMP, FILTER, OPTION = 38, 22, 2, 32

def step(code, value, yes=0, no=0):
    return struct.pack("=HBBI", code, yes, no, value)

setting, getting = SOCKET_CALLS[os.uname().machine]
program = b"".join((
    step(LOAD, 0),
    step(EQUAL, setting, no=2), step(LOAD, OPTION), step(EQUAL, PASS_PIDFD, yes=3, no=4),
    step(EQUAL, getting, no=3), step(LOAD, OPTION), step(EQUAL, PEER_PIDFD, no=1),
    step(RETURN, FAIL | errno.ENOPROTOOPT),
    step(RETURN, ALLOW),
))

class Program(ctypes.Structure):
    _fields_ = (("length", ctypes.c_ushort), ("filter", ctypes.c_char_p))

libc = ctypes.CDLL(None, use_errno=True)
described = Program(len(program) // 8, program)
if libc.prctl(NO_NEW_PRIVILEGES, 1, 0, 0, 0) or libc.prctl(
    SECCOMP, FILTER, ctypes.byref(described), 0, 0
):
    raise OSError(ctypes.get_errno(), "no filter")
os.execv(sys.argv[1], sys.argv[1:])
"""


def missing() -> str:
    """Return why there can be no such process here; empty if there can."""
    machine = os.uname().machine
    return "" if machine in {"x86_64", "aarch64"} else f"calls of {machine} aren't known"


def on_older_kernel(command: Sequence[str]) -> list[str]:
    """Return the command that runs another one so; its program needs a path."""
    return [sys.executable, "-c", _PROGRAM, *command]


class OlderDaemon(Daemon):
    """A daemon there."""

    def command(self) -> list[str]:
        """Return the command that starts it."""
        return on_older_kernel(super().command())


class OlderSidecar(Sidecar):
    """A daemon there, with process numbers of its own."""

    def inside(self) -> list[str]:
        """Return the command that runs in the name space."""
        return on_older_kernel(super().inside())
