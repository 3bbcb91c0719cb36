"""What the daemon gives up before it holds a key, and what it refuses to trust.

Order matters: `harden` comes first of all, before grpc starts threads of its own.
"""

from __future__ import annotations

import ctypes
import os
import resource
import stat
import sys
from typing import TYPE_CHECKING, Final

from sealcar.errors import ConfigurationError, InternalError, ResourceError

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

_PR_SET_DUMPABLE: Final = 4
_OTHERS_WRITE: Final = stat.S_IWGRP | stat.S_IWOTH


def harden() -> None:
    """Leave no core, let no process of the same user look inside, make files for nobody else.

    Raises:
        InternalError: grpc is imported already, so threads may run that started before.
        ResourceError: the kernel refused.
    """
    if "grpc" in sys.modules:
        raise InternalError("grpc was imported before the process was hardened")
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.prctl(_PR_SET_DUMPABLE, 0, 0, 0, 0) != 0:
        reason = os.strerror(ctypes.get_errno())
        raise ResourceError(f"the kernel refused to make the daemon undumpable: {reason}")
    os.umask(0o077)


def allow_many_files() -> None:
    """Raise the limit of open descriptors as far as it goes: each client needs a few."""
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))


def require_private(path: Path, what: str, *, above: bool = True) -> None:
    """Return if only the daemon's user and root can change what the path leads to.

    Every directory above counts too, if `above`: who can write one can put something else in its
    place. A sticky directory such as /tmp is fine, if what is in it belongs to one of the two.

    Raises:
        ConfigurationError: somebody else can, or there is nothing.
    """
    trusted = (0, os.geteuid())
    for place in _places(path) if above else (path,):
        try:
            status = place.lstat()
        except OSError as error:
            raise ConfigurationError(f"{what} {path}: {place}: {error.strerror}") from error
        if status.st_uid not in trusted:
            raise ConfigurationError(
                f"{what} {path}: {place} belongs to uid {status.st_uid}, who could replace it; "
                f"chown it to uid {os.geteuid()} or root, or choose another place"
            )
        if stat.S_ISLNK(status.st_mode) or not status.st_mode & _OTHERS_WRITE:
            continue
        if place != path and status.st_mode & stat.S_ISVTX:
            continue
        raise ConfigurationError(
            f"{what} {path}: others than its owner can write {place}; chmod go-w it"
        )


def _places(path: Path) -> Iterator[Path]:
    written, real = path.absolute(), path.resolve()
    yield from dict.fromkeys((written, *written.parents, real, *real.parents))
