"""Secrets in files: read into locked memory, refused if others can read them too."""

from __future__ import annotations

import os
import stat
from typing import TYPE_CHECKING, Final

from sealcar.errors import ConfigurationError, KeyUnavailableError
from sealcar_server.sealing.secret import SecretBuffer

if TYPE_CHECKING:
    from pathlib import Path

_MOST: Final = 4096
_OTHERS: Final = 0o077
_OTHERS_WRITE: Final = 0o022
_GROUP_READS: Final = 0o040


def read(path: Path, what: str, *, least: int, most: int) -> SecretBuffer:
    """Return a file's content.

    Links are followed, since mounted secrets are links; it is the opened file that is checked. It
    belongs to root or to the daemon. Nobody else has rights to it, but for one case: root's file,
    which the daemon can read only by its group or by an entry for it in the access list.

    Raises:
        ConfigurationError: others can read it, or it can't be what it should be.
        KeyUnavailableError: it can't be read.
    """
    return _read(path, what, (least, most), _OTHERS)


def _read(path: Path, what: str, sizes: tuple[int, int], others: int) -> SecretBuffer:
    try:
        fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
    except OSError as error:
        raise KeyUnavailableError(f"{what} {path}: {error.strerror}") from error
    try:
        info = os.fstat(fd)
        _check(info, f"{what} {path}", others)
        if not sizes[0] <= info.st_size <= sizes[1]:
            raise ConfigurationError(f"{what} {path} is no {what}: {info.st_size} bytes")
        return _content(fd, info.st_size, f"{what} {path}")
    finally:
        os.close(fd)


def read_public(path: Path, what: str, *, most: int) -> SecretBuffer:
    """Return the content of a file that others may read, but not change; raises as `read`."""
    return _read(path, what, (1, most), _OTHERS_WRITE)


def read_secret(path: Path, what: str) -> SecretBuffer:
    """Return a passphrase, PIN or token: a file's content without a line feed at its end.

    Raises:
        ConfigurationError: others can read it, or it is empty.
        KeyUnavailableError: it can't be read.
    """
    with read(path, what, least=1, most=_MOST) as content:
        end = len(content)
        while end and content.view[end - 1] in b"\r\n":
            end -= 1
        if not end:
            raise ConfigurationError(f"{what} {path} is empty")
        return SecretBuffer.copy_of(content.view[:end])


def _check(info: os.stat_result, place: str, others: int) -> None:
    if not stat.S_ISREG(info.st_mode):
        raise ConfigurationError(f"{place} must be a regular file")
    if info.st_uid not in (0, os.geteuid()):
        raise ConfigurationError(f"{place} belongs to uid {info.st_uid}: chown it")
    allowed = _GROUP_READS if info.st_uid == 0 != os.geteuid() else 0
    if info.st_mode & others & ~allowed:
        mode = stat.S_IMODE(info.st_mode)
        raise ConfigurationError(f"{place} has mode {mode:04o}: chmod 600 it")


def _content(fd: int, size: int, place: str) -> SecretBuffer:
    text = SecretBuffer(size)
    try:
        got = os.preadv(fd, [text.view], 0)
    except OSError as error:
        text.close()
        raise KeyUnavailableError(f"{place}: {error.strerror}") from error
    if got != size:
        text.close()
        raise KeyUnavailableError(f"{place} changes while it is read")
    return text
