"""A daemon as in a sidecar's container: the number of every caller's process is 0 for it."""

from __future__ import annotations

import sys
from typing import Final

from support.daemon import Daemon

_PROGRAM: Final = """
import ctypes, os, signal, sys

NEW_PIDS, PARENT_DEATH = 0x20000000, 1
libc = ctypes.CDLL(None, use_errno=True)
if libc.unshare(NEW_PIDS):
    raise OSError(ctypes.get_errno(), "no name space")
child = os.fork()
if not child:
    libc.prctl(PARENT_DEATH, signal.SIGKILL, 0, 0, 0)
    os.execv(sys.argv[1], sys.argv[1:])
signal.signal(signal.SIGTERM, lambda number, _: os.kill(child, number))
sys.exit(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
"""


class Sidecar(Daemon):
    """A daemon with process numbers of its own; `pid` is that of who waits for it."""

    def command(self) -> list[str]:
        """Return the command that starts it."""
        return [sys.executable, "-c", _PROGRAM, *self.inside()]

    def inside(self) -> list[str]:
        """Return the command that runs there."""
        return super().command()
