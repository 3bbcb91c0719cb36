"""The same bytes under a second name: hard link, else reflink, else copy."""

from __future__ import annotations

import errno
import fcntl
import os
from typing import TYPE_CHECKING, Final

from sealcar_server.store.failure import storing

if TYPE_CHECKING:
    from sealcar_server.store.directory import Directory

_FICLONE: Final = 0x40049409
_CHUNK: Final = 64 * 1024 * 1024
# what file systems say that can't link, or not once more
_NO_LINK: Final = {errno.EXDEV, errno.EMLINK, errno.EPERM, errno.EOPNOTSUPP, errno.ENOSYS}
_NO_CLONE: Final = {errno.EXDEV, errno.EOPNOTSUPP, errno.ENOTTY, errno.EINVAL, errno.ENOSYS}


def place(source: Directory, target: Directory, name: str) -> str:
    """Give a file of `source` the same name in `target`; return how: "link", "reflink" or "copy".

    Raises:
        NotFoundError: the source is missing.
        NotAuthenticError: the source is no regular file.
        AlreadyExistsError: the target's name is taken.
        ExhaustedError: the disk is full.
    """
    fd = source.open_file(name)
    try:
        with storing(name):
            return "link" if _linked(source, target, name) else _duplicate(fd, target, name)
    finally:
        os.close(fd)


def _linked(source: Directory, target: Directory, name: str) -> bool:
    try:
        os.link(name, name, src_dir_fd=source.fd, dst_dir_fd=target.fd, follow_symlinks=False)
    except OSError as error:
        if error.errno in _NO_LINK:
            return False
        raise
    return True


def _duplicate(source: int, target: Directory, name: str) -> str:
    copy = target.create_file(name)
    try:
        how = "reflink" if _cloned(source, copy) else _copied(source, copy)
        os.fsync(copy)
    except BaseException:
        target.remove(name)
        raise
    finally:
        os.close(copy)
    return how


def _cloned(source: int, copy: int) -> bool:
    try:
        fcntl.ioctl(copy, _FICLONE, source)
    except OSError as error:
        if error.errno in _NO_CLONE:
            return False
        raise
    return True


def _copied(source: int, copy: int) -> str:
    offset = 0
    while moved := os.sendfile(copy, source, offset, _CHUNK):
        offset += moved
    return "copy"
