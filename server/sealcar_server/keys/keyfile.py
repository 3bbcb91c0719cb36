"""The file that holds key-encryption keys, read and made without a copy outside locked memory.

    sealcar key-encryption keys, format 1
    1 8f3a…            version, a space, 64 lower-case hexadecimal digits
    2 0c71…            the last line's key wraps new package keys

Versions are numbers from 1 to 9999 and only grow. Every line ends with a line feed.
"""

from __future__ import annotations

import os
import stat
from contextlib import ExitStack
from typing import TYPE_CHECKING, Final

from sealcar.errors import (
    AlreadyExistsError,
    ConfigurationError,
    KeyUnavailableError,
    SealcarError,
    StorageError,
)
from sealcar_server.sealing.secret import SecretBuffer

if TYPE_CHECKING:
    from pathlib import Path

KEY: Final = 32
_TITLE: Final = b"sealcar key-encryption keys, format 1\n"
_DIGITS: Final = b"0123456789abcdef"
_MAX_SIZE: Final = 1 << 20
_MAX_VERSION: Final = 4
_FEED: Final = 0x0A
_SPACE: Final = 0x20


def read(path: Path) -> dict[str, SecretBuffer]:
    """Return every key by its version, in the file's order.

    Raises:
        ConfigurationError: not a file of this form, or one that others can read.
        KeyUnavailableError: it can't be read.
    """
    try:
        fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK)
    except OSError as error:
        raise KeyUnavailableError(f"key file {path}: {error.strerror}") from error
    try:
        with _content(fd, path) as text:
            return _parse(text.view, path)
    finally:
        os.close(fd)


def create(path: Path) -> None:
    """Make a file with one new key of version 1, readable by its owner only.

    Raises:
        AlreadyExistsError: there is one; it is never replaced.
        StorageError: it can't be written.
    """
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC | os.O_NOFOLLOW
    try:
        fd = os.open(path, flags, 0o600)
    except FileExistsError:
        raise AlreadyExistsError(f"key file {path} exists already; it is never replaced") from None
    except OSError as error:
        raise StorageError(f"key file {path}: {error.strerror}") from error
    try:
        with _fresh() as text:
            _store(fd, text)
        _sync_directory(path.parent)
    except OSError as error:
        path.unlink(missing_ok=True)
        raise StorageError(f"key file {path}: {error.strerror}") from error
    finally:
        os.close(fd)


def _content(fd: int, path: Path) -> SecretBuffer:
    info = os.fstat(fd)
    if not stat.S_ISREG(info.st_mode):
        raise ConfigurationError(f"key file {path} must be a regular file")
    if info.st_uid not in (0, os.geteuid()):
        raise ConfigurationError(f"key file {path} belongs to uid {info.st_uid}: chown it")
    if info.st_mode & 0o077:
        mode = stat.S_IMODE(info.st_mode)
        raise ConfigurationError(f"key file {path} has mode {mode:04o}: chmod 600 it")
    if not len(_TITLE) < info.st_size <= _MAX_SIZE:
        raise ConfigurationError(f"key file {path} is no key file: {info.st_size} bytes")
    text = SecretBuffer(info.st_size)
    try:
        got = os.preadv(fd, [text.view], 0)
    except OSError as error:
        text.close()
        raise KeyUnavailableError(f"key file {path}: {error.strerror}") from error
    if got != info.st_size:
        text.close()
        raise KeyUnavailableError(f"key file {path} changes while it is read")
    return text


def _parse(text: memoryview, path: Path) -> dict[str, SecretBuffer]:
    if bytes(text[: len(_TITLE)]) != _TITLE:
        raise ConfigurationError(f"key file {path} doesn't begin with {_TITLE[:-1].decode()!r}")
    if text[-1] != _FEED:
        raise ConfigurationError(f"key file {path} is cut: its last line has no line feed")
    keys: dict[str, SecretBuffer] = {}
    with ExitStack() as made:
        at, line = len(_TITLE), 2
        while at < len(text):
            end = next(place for place in range(at, len(text)) if text[place] == _FEED)
            version = _version(text[at:end])
            if version is None or int(version) <= int(next(reversed(keys), "0")):
                raise _bad_line(path, line)
            keys[version] = made.enter_context(SecretBuffer(KEY))
            if not _decode(text[at + len(version) + 1 : end], keys[version].view):
                raise _bad_line(path, line)
            at, line = end + 1, line + 1
        made.pop_all()
    return keys


def _version(line: memoryview) -> str | None:
    length = next((at for at, byte in enumerate(line[: _MAX_VERSION + 1]) if byte == _SPACE), 0)
    digits = bytes(line[:length])
    return digits.decode() if digits.isdigit() and not digits.startswith(b"0") else None


def _decode(digits: memoryview, key: memoryview) -> bool:
    if len(digits) != 2 * KEY:
        return False
    for index in range(KEY):
        high, low = _DIGITS.find(digits[2 * index]), _DIGITS.find(digits[2 * index + 1])
        if high < 0 or low < 0:
            return False
        key[index] = high << 4 | low
    return True


def _bad_line(path: Path, line: int) -> SealcarError:
    return ConfigurationError(
        f"key file {path}, line {line}: must be a version above the last one's, a space,"
        f" {2 * KEY} hexadecimal digits and a line feed"
    )


def _fresh() -> SecretBuffer:
    head = _TITLE + b"1 "
    text = SecretBuffer(len(head) + 2 * KEY + 1)
    text.view[: len(head)] = head
    with SecretBuffer.random(KEY) as key:
        for index, value in enumerate(key.view):
            text.view[len(head) + 2 * index] = _DIGITS[value >> 4]
            text.view[len(head) + 2 * index + 1] = _DIGITS[value & 15]
    text.view[-1] = _FEED
    return text


def _store(fd: int, text: SecretBuffer) -> None:
    # a file this small is written whole or not at all
    if os.write(fd, text.view) != len(text):
        raise OSError(0, "not written whole")
    os.fsync(fd)


def _sync_directory(directory: Path) -> None:
    fd = os.open(directory, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)
