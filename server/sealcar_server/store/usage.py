"""How much of a disk files take, and what would be free without them."""

from __future__ import annotations

import os
import stat
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from sealcar_server.store.failure import storing

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from sealcar_server.store.directory import Directory

_DEEPEST: Final = 32  # directories; a payload in a generation lies in fewer than twenty
_BLOCK: Final = 512  # what st_blocks counts, on every file system


@dataclass(frozen=True, slots=True)
class FileUse:
    """One name of a file: equal ones are one file under several names.

    Attributes:
        device, inode: which file it is.
        links: how many names it has in all.
        size: bytes of the disk.
    """

    device: int
    inode: int
    links: int
    size: int


def files_below(directory: Directory) -> Iterator[FileUse]:
    """Yield every file in a directory and below, links not followed.

    What lies deeper than any payload can isn't looked for.

    Raises:
        StorageError, NotFoundError: it can't be listed, or goes away meanwhile.
    """
    pending: list[tuple[str, ...]] = [()]
    while pending:
        path = pending.pop()
        with directory.enter(*path) as here:
            for name in here.names():
                with storing("looking at a file of the store"):
                    found = os.stat(name, dir_fd=here.fd, follow_symlinks=False)
                if not stat.S_ISDIR(found.st_mode):
                    yield use_of(found)
                elif len(path) < _DEEPEST:
                    pending.append((*path, name))


def use_of(found: os.stat_result) -> FileUse:
    """Return which file the system told of."""
    return FileUse(found.st_dev, found.st_ino, found.st_nlink, found.st_blocks * _BLOCK)


def freed_by_removing(files: Mapping[FileUse, int]) -> int:
    """Return the bytes that are free once so many names of each file are gone.

    A file that has a name elsewhere stays. What file systems share below their files can't be told.
    """
    return sum(one.size for one, count in files.items() if count >= one.links)
