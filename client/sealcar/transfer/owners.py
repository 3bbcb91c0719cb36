"""Whose a socket directory is, as long as nobody else could have put it there.

Whoever makes the directory first, or can replace one above it, would else be taken for the daemon.
"""

from __future__ import annotations

import os
import stat
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from sealcar.errors import ConfigurationError, UnavailableError

_ROOT: Final = Path("/")
_LINKS: Final = 40  # that the kernel follows
_OTHERS_WRITE: Final = stat.S_IWGRP | stat.S_IWOTH


@dataclass(frozen=True)
class _Place:
    """A directory or a link on the way.

    Attributes:
        open: others than its owner can make something in it.
        made_by_any: others could have made it, since they can write to the directory it is in.
    """

    path: Path
    owner: int
    mode: int
    made_by_any: bool

    @property
    def open(self) -> bool:
        return not stat.S_ISLNK(self.mode) and bool(self.mode & _OTHERS_WRITE)


def owner_of(directory: Path) -> int:
    """Return the uid that a socket directory belongs to.

    Raises:
        ConfigurationError: others could have put it there, so that its owner says nothing.
        UnavailableError: there is no such directory.
    """
    try:
        way = _way(directory)
    except OSError as error:
        raise UnavailableError(f"no daemon listens at {directory}: {error}") from error
    last = way[-1]
    for place in way:
        if finding := _finding(place, last):
            raise ConfigurationError(
                f"{finding}, so the owner of {directory} doesn't tell who the daemon is: give"
                " peer_uid or $SEALCAR_PEER_UID, or put the sockets where only root, the daemon"
                " and you can write (chmod go-w)"
            )
    return last.owner


def _finding(place: _Place, last: _Place) -> str:
    me = os.geteuid()
    # a sticky directory such as /tmp keeps what is in it from being replaced, but not from being
    # made by whoever comes first
    if place.open and (place is last or not place.mode & stat.S_ISVTX):
        return f"others than its owner can write to {place.path}"
    if place.made_by_any and place.owner not in (0, me):
        return f"{place.path} belongs to uid {place.owner}, and others too could have made it"
    if place.owner not in (0, me, last.owner):
        return f"{place.path} belongs to uid {place.owner}, who can replace what is below"
    return ""


def _way(directory: Path) -> list[_Place]:
    """Return what leads to a directory, from / on, links too; the directory itself comes last."""
    rest = [*reversed(directory.parts[1:])]
    here, links = _place(_ROOT, None), 0
    way = [here]
    while rest:
        name = rest.pop()
        if name == "..":
            here = _place(here.path.parent, None)
            continue
        found = _place(here.path / name, here)
        way.append(found)
        if not stat.S_ISLNK(found.mode):
            here = found
            continue
        links += 1
        if links > _LINKS:
            raise UnavailableError(f"{directory} leads through over {_LINKS} links")
        target = found.path.readlink()
        if target.is_absolute():
            here = way[0]
        rest += reversed(target.parts[1:] if target.is_absolute() else target.parts)
    return [*way, here] if way[-1] is not here else way


def _place(path: Path, inside: _Place | None) -> _Place:
    found = path.lstat()
    return _Place(path, found.st_uid, found.st_mode, inside is not None and inside.open)
