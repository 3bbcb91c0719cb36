"""A key file on disk: read, made, and given a new version, whole or not at all."""

from __future__ import annotations

import fcntl
import hashlib
import os
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from sealcar.errors import (
    AlreadyExistsError,
    ConfigurationError,
    ConflictError,
    StorageError,
)
from sealcar_server.keys import keyfile, passphrase, private_file

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path

    from sealcar_server.sealing.secret import SecretBuffer

_WHAT: Final = "key file"


@dataclass(frozen=True)
class KeyFile:
    """A file's keys, and what tells whether it is still the same file.

    Attributes:
        keys: by version, oldest first.
        digest: of the whole content.
    """

    keys: Mapping[str, SecretBuffer]
    digest: bytes

    def close(self) -> None:
        """Wipe every key."""
        for key in self.keys.values():
            key.close()


def read(path: Path, secret: Path | None) -> KeyFile:
    """Return a file's keys.

    Args:
        path: of the file.
        secret: file with its passphrase; None: it has none.

    Raises:
        ConfigurationError: not a key file, or one that others can read; a passphrase is missing,
            or given in vain.
        KeyRefusedError: the passphrase is another one.
        KeyUnavailableError: a file can't be read.
    """
    with _content(path) as content:
        digest = hashlib.sha256(content.view).digest()
        with _text(content, path, secret) as text:
            return KeyFile(keyfile.parse(text.view, path), digest)


def unchanged(path: Path, digest: bytes) -> bool:
    """Tell whether the file is byte for byte what was read once.

    Raises:
        ConfigurationError: others can read it by now.
        KeyUnavailableError: it can't be read.
    """
    with _content(path) as content:
        return hashlib.sha256(content.view).digest() == digest


def create(path: Path, secret: Path | None) -> None:
    """Make a file with one new key of version 1, readable by its owner only.

    Raises:
        AlreadyExistsError: there is one; it is never replaced.
        ConfigurationError: the passphrase is short, or others can read it.
        KeyUnavailableError: the passphrase can't be read.
        StorageError: it can't be written.
    """
    with keyfile.extended(None, 1) as text, _written(text, secret) as content:
        try:
            _store(path, content)
        except FileExistsError:
            raise AlreadyExistsError(
                f"{_WHAT} {path} exists already; it is never replaced"
            ) from None
        except OSError as error:
            raise StorageError(f"{_WHAT} {path}: {error.strerror}") from error


def add_version(path: Path, secret: Path | None) -> str:
    """Give a file one new key more, and return its version.

    Killed at any point, it leaves the old file or the new one.

    Raises:
        ConfigurationError, KeyRefusedError, KeyUnavailableError: as in `read`; or the file is full.
        ConflictError: somebody else is doing it.
        StorageError: it can't be written.
    """
    real = path.resolve()
    try:
        with (
            _alone(real),
            _content(real) as content,
            _text(content, path, secret) as text,
            keyfile.extended(text.view, version := _next_version(text, path)) as longer,
            _written(longer, secret) as new,
        ):
            beside = real.with_name(f".{real.name}.new")
            beside.unlink(missing_ok=True)  # of somebody who was killed
            _store(beside, new)
            beside.rename(real)
            _sync_directory(real.parent)
    except OSError as error:
        raise StorageError(f"{_WHAT} {path}: {error.strerror}") from error
    return str(version)


@contextmanager
def _alone(path: Path) -> Iterator[None]:
    fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        if not _locked(fd) or not os.path.samestat(os.fstat(fd), path.stat()):
            raise ConflictError(f"{_WHAT} {path} is being changed by somebody else")
        yield
    finally:
        os.close(fd)


def _locked(fd: int) -> bool:
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _next_version(text: SecretBuffer, path: Path) -> int:
    keys = keyfile.parse(text.view, path)
    for key in keys.values():
        key.close()
    version = int(tuple(keys)[-1]) + 1
    if version > keyfile.LAST_VERSION:
        raise ConfigurationError(f"{_WHAT} {path} has had all its versions: make another key")
    return version


def _content(path: Path) -> SecretBuffer:
    return private_file.read(path, _WHAT, least=len(keyfile.TITLE) + 1, most=keyfile.MOST)


@contextmanager
def _text(content: SecretBuffer, path: Path, secret: Path | None) -> Iterator[SecretBuffer]:
    under_passphrase = bytes(content.view[: len(passphrase.TITLE)]) == passphrase.TITLE
    if not under_passphrase:
        if secret is not None:
            raise ConfigurationError(f"{_WHAT} {path} is under no passphrase: remove `secret`")
        yield content
        return
    if secret is None:
        raise ConfigurationError(
            f'{_WHAT} {path} is under a passphrase: name its file with secret = "file:PATH"'
        )
    with (
        private_file.read_secret(secret, "passphrase") as phrase,
        passphrase.unseal(content.view, phrase, path) as text,
    ):
        yield text


@contextmanager
def _written(text: SecretBuffer, secret: Path | None) -> Iterator[memoryview | bytes]:
    if secret is None:
        yield text.view
        return
    with private_file.read_secret(secret, "passphrase") as phrase:
        yield passphrase.seal(text, phrase)


def _store(path: Path, content: memoryview | bytes) -> None:
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC | os.O_NOFOLLOW
    fd = os.open(path, flags, 0o600)
    try:
        _write(fd, content)
        _sync_directory(path.parent)
    except OSError:
        with suppress(OSError):
            path.unlink()
        raise
    finally:
        os.close(fd)


def _write(fd: int, content: memoryview | bytes) -> None:
    # a file this small is written whole or not at all
    if os.write(fd, content) != len(content):
        raise OSError(0, "not written whole")
    os.fsync(fd)


def _sync_directory(directory: Path) -> None:
    fd = os.open(directory, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)
