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
STEPS: Final = ("no core", "not dumpable", "umask 077")


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
