"""What every process that may hold a key gives up first of all, before it reads a setting.

grpc starts threads of its own, and what is given up here holds only for threads that start later.
"""

from __future__ import annotations

import os
import resource
import sys
from typing import Final

from sealcar.errors import InternalError, ResourceError
from sealcar_server.hardening import kernel

_PR_SET_DUMPABLE: Final = 4
_AT_ONCE: Final = "LD_BIND_NOW"  # of ld.so(8)
_BEGUN_ANEW: Final = "SEALCAR_BEGUN_ANEW"
STEPS: Final = ("no core", "not dumpable", "umask 077")


def link_at_once() -> None:
    """Have all functions of libraries looked up before a key is there, beginning anew if need be.

    Else ld.so looks each one up at its first call. It saves the vector registers on that thread's
    stack meanwhile, in which there may be a key that was copied a moment ago, and leaves it there.

    Raises:
        ResourceError: the program can't begin anew, or ld.so doesn't let itself be told.
    """
    anew = os.environ.pop(_BEGUN_ANEW, "")
    if os.environ.get(_AT_ONCE):
        return
    if anew:
        # ld.so takes it away from such programs: they would begin anew forever
        raise ResourceError(
            f"{_AT_ONCE} doesn't reach the daemon: start it by a Python that is neither set-user-ID"
            " nor has capabilities of its own (getcap)"
        )
    os.environ[_AT_ONCE] = os.environ[_BEGUN_ANEW] = "1"
    try:
        os.execv(sys.executable, [sys.executable, *sys.orig_argv[1:]])  # noqa: S606  (itself)
    except OSError as error:
        raise ResourceError(
            f"the daemon can't begin anew: {error.strerror}; set {_AT_ONCE}=1 for it"
        ) from error


def harden() -> None:
    """Leave no core, let no process of the same user look inside, make files for nobody else.

    Raises:
        InternalError: grpc is imported already, so threads may run that started before.
        ResourceError: the kernel refused.
    """
    if "grpc" in sys.modules:
        raise InternalError("grpc was imported before the process was hardened")
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    try:
        kernel.prctl(_PR_SET_DUMPABLE, 0)
    except OSError as error:
        raise ResourceError(
            f"the kernel refused to make the daemon undumpable: {error.strerror}"
        ) from error
    os.umask(0o077)


def raise_limits() -> None:
    """Take as many descriptors as there may be, since each client needs a few, and lock keys."""
    for limit in (resource.RLIMIT_NOFILE, resource.RLIMIT_MEMLOCK):
        _, most = resource.getrlimit(limit)
        resource.setrlimit(limit, (most, most))
