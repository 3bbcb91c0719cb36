"""What the daemon relies on may be changed by nobody but its user and root."""

from __future__ import annotations

import os
import stat
from typing import TYPE_CHECKING, Final

from sealcar.errors import ConfigurationError

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

_OTHERS_WRITE: Final = stat.S_IWGRP | stat.S_IWOTH


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
