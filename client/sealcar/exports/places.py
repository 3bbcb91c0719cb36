"""Where an export goes: written beside its place, and put there by one rename once it is whole."""

from __future__ import annotations

import errno
import os
import secrets
import shutil
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Final, Protocol, Self

from sealcar.errors import (
    AlreadyExistsError,
    ExhaustedError,
    InvalidRequestError,
    SealcarError,
    StorageError,
)
from sealcar.names import shown

if TYPE_CHECKING:
    from collections.abc import Iterator

_CREATE: Final = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
_KINDS: Final[dict[int, type[SealcarError]]] = {
    errno.EEXIST: AlreadyExistsError,
    errno.ENOTEMPTY: AlreadyExistsError,
    errno.ENOSPC: ExhaustedError,
    errno.EDQUOT: ExhaustedError,
    errno.EFBIG: ExhaustedError,
}


@dataclass(frozen=True)
class Recipient:
    """Somebody else whom a package is for; nobody but he can open it, and whoever sent it.

    Attributes:
        alias: of his key in the daemon's configuration.
        key: his public key, PEM, in place of an alias; needs the right to export in plain.
        not_after: seconds since 1970 after which nobody takes the package in; 0: no end.
        signed: fail where the daemon has no key to sign it with; it signs whenever it has.
    """

    alias: str = ""
    key: bytes = field(default=b"", repr=False)
    not_after: int = 0
    signed: bool = False


@dataclass(frozen=True)
class Destination:
    """Where an export goes.

    Attributes:
        path: where nothing may be yet.
        tar: one tar file, uncompressed; else a directory.
        recipient: whom it is for; None: the daemon's own key opens it.
    """

    path: Path
    tar: bool = False
    recipient: Recipient | None = None


class Target(Protocol):
    """Takes the files of an export, one after the other; discarded on leaving unless finished."""

    def file(self, path: str, size: int) -> None:
        """Begin the next file; its path has been checked."""

    def write(self, data: bytes) -> None:
        """Add to the file that was begun last."""

    def finish(self) -> None:
        """Make everything durable, then put it in its place."""

    def __enter__(self) -> Self: ...

    def __exit__(self, *_: object) -> None: ...


class Folder:
    """A directory in the making.

    Args:
        path: where it will be.
        private: for nobody but its owner, since it is plain.

    Raises:
        AlreadyExistsError: there is something.
        ExhaustedError, StorageError: it can't be written; so raise all methods.
    """

    def __init__(self, path: Path, *, private: bool) -> None:
        self._path, self._beside = path, beside(path)
        self._modes = (0o700, 0o600) if private else (0o755, 0o644)
        self._fd = -1
        with writing(path):
            self._beside.mkdir(self._modes[0])
        self._folders, self._files = {self._beside: None}, list[Path]()

    def file(self, path: str, size: int) -> None:  # noqa: ARG002  (of the protocol)
        """Begin the next file."""
        self._end()
        *folders, _ = path.split("/")
        with writing(path):
            for depth in range(1, len(folders) + 1):
                self._make(self._beside.joinpath(*folders[:depth]))
            place = self._beside / path
            self._fd = os.open(place, _CREATE, self._modes[1])
            self._files.append(place)

    def write(self, data: bytes) -> None:
        """Add to the file that was begun last."""
        write_all(self._fd, data, self._path)

    def finish(self) -> None:
        """Make everything durable, then put it in its place."""
        self._end()
        with writing(self._path):
            # only now: it takes its time, for which a daemon that sends wouldn't wait
            for place in (*self._files, *reversed(self._folders)):
                sync(place)
            # of what may be there by now only an empty directory is replaced
            self._beside.rename(self._path)
            sync_folder(self._path)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        with suppress(OSError):
            self._end()
        shutil.rmtree(self._beside, ignore_errors=True)

    def _make(self, folder: Path) -> None:
        if folder not in self._folders:
            folder.mkdir(self._modes[0])
            self._folders[folder] = None

    def _end(self) -> None:
        fd, self._fd = self._fd, -1
        if fd >= 0:
            os.close(fd)


def beside(path: Path) -> Path:
    """Return a fresh name beside a path where nothing is.

    Raises:
        AlreadyExistsError: there is something.
        InvalidRequestError: nothing can be put there.
    """
    if path.name in {"", ".."} or not _can_be(path):
        raise InvalidRequestError(f"{shown(str(path))} names no place for an export")
    if os.path.lexists(path):
        raise AlreadyExistsError(f"{shown(str(path))} exists already: name another place")
    return path.parent / f".sealcar-{secrets.token_hex(8)}.part"


def _can_be(path: Path) -> bool:
    try:
        return b"\0" not in os.fsencode(path)
    except UnicodeEncodeError:
        return False


def create(path: Path, mode: int) -> int:
    """Return the descriptor of a new file."""
    with writing(path):
        return os.open(path, _CREATE, mode)


def write_all(fd: int, data: bytes, path: Path) -> None:
    """Write all of it."""
    rest = memoryview(data)
    with writing(path):
        while rest:
            rest = rest[os.write(fd, rest) :]


def sync(place: Path) -> None:
    """Make a file, or the names in a directory, durable."""
    fd = os.open(place, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)


def sync_folder(path: Path) -> None:
    """Make the name of a path durable."""
    # the directory may be a link: who exports has chosen it
    sync(path.parent.resolve())


@contextmanager
def writing(path: Path | str) -> Iterator[None]:
    """Turn what the system says into an error about this path.

    Raises:
        AlreadyExistsError, ExhaustedError, StorageError: as it says.
    """
    try:
        yield
    except OSError as error:
        kind = _KINDS.get(error.errno or 0, StorageError)
        raise kind(f"{shown(str(path))} can't be written: {error.strerror}") from error
