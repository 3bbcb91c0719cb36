"""What the daemon relies on may be changed by nobody but its user and root."""

from __future__ import annotations

import errno
import os
import stat
from typing import TYPE_CHECKING, Final

from sealcar.errors import ConfigurationError

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

_OTHERS_WRITE: Final = stat.S_IWGRP | stat.S_IWOTH
_MOST_LINKS: Final = 40  # as the kernel has it


def require_private(path: Path, what: str, *, above: bool = True) -> None:
    """Return if only the daemon's user and root can change what the path leads to.

    Every directory above counts too, if `above`, and every link with those above it: who can write
    one can put something else in its place. A sticky directory such as /tmp is fine, if what is in
    it belongs to one of the two.

    Raises:
        ConfigurationError: somebody else can, or there is nothing.
    """
    trusted = (0, os.geteuid())
    try:
        passed = list(_passed(path)) if above else [(path, path.lstat())]
    except OSError as error:
        raise ConfigurationError(f"{what} {path}: {error.filename}: {error.strerror}") from error
    itself, _ = passed[-1]
    for place, status in passed:
        if status.st_uid not in trusted:
            raise ConfigurationError(
                f"{what} {path}: {place} belongs to uid {status.st_uid}, who could replace it; "
                f"chown it to uid {os.geteuid()} or root, or choose another place"
            )
        if stat.S_ISLNK(status.st_mode) or not status.st_mode & _OTHERS_WRITE:
            continue
        if place != itself and status.st_mode & stat.S_ISVTX:
            continue
        raise ConfigurationError(
            f"{what} {path}: others than its owner can write {place}; chmod go-w it"
        )


def _passed(path: Path) -> Iterator[tuple[Path, os.stat_result]]:
    """Yield what the kernel passes on its way, and at last what the path leads to."""
    written = path.absolute()
    at, left, links = written, list(reversed(written.parts)), 0
    while left:
        # behind a link its target comes next, which begins at the root if it is absolute
        place = at / left.pop()
        if place.name == "..":
            place = at.parent
        status = place.lstat()
        yield place, status
        if not stat.S_ISLNK(status.st_mode):
            at = place
            continue
        links += 1
        if links > _MOST_LINKS:
            raise OSError(errno.ELOOP, os.strerror(errno.ELOOP), str(place))
        left += reversed(place.readlink().parts)
