"""A directory by its descriptor: what lies below is reached from it, never through a link."""

from __future__ import annotations

import errno
import os
import secrets
import stat
from contextlib import suppress
from typing import TYPE_CHECKING, Final

from sealcar.closing import Closing
from sealcar.errors import AlreadyExistsError, InvalidNameError, NotAuthenticError
from sealcar.names import shown
from sealcar_server.store.beneath import open_beneath
from sealcar_server.store.failure import storing

if TYPE_CHECKING:
    from pathlib import Path

_DIRECTORY: Final = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
# O_NONBLOCK: a FIFO in a file's place must not hold up whoever opens it
_READ: Final = os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK | os.O_NOCTTY
_CREATE: Final = os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC


class Directory(Closing):
    """Owns a directory's descriptor; a context manager that closes it."""

    def __init__(self, fd: int) -> None:
        self.fd = fd

    @classmethod
    def open(cls, path: Path, called: str = "") -> Directory:
        """Open by path, which the configuration names: links in it are the operator's own.

        Args:
            path: of the directory.
            called: what errors call it; empty: by its path, which is for operators only.

        Raises:
            NotFoundError: there is none.
        """
        with storing(called or f"the directory {path}"):
            return cls(os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC))

    def enter(self, *names: str) -> Directory:
        """Open the directory below.

        Raises:
            NotFoundError: there is none.
            NotAuthenticError: a step is a link or no directory.
        """
        if len(names) > 1:
            fd = open_beneath(self.fd, [checked(name) for name in names], _DIRECTORY)
            if fd is not None:
                return Directory(fd)
        return self._walk(names, make=False)

    def ensure(self, *names: str) -> Directory:
        """Open the directory below; make what is missing, durably.

        Raises:
            ExhaustedError: the disk is full.
            NotAuthenticError: a step is a link or no directory.
        """
        return self._walk(names, make=True)

    def make(self, name: str) -> None:
        """Make a directory; AlreadyExistsError if the name is taken."""
        with storing(f"the directory {shown(checked(name))}"):
            os.mkdir(name, 0o700, dir_fd=self.fd)

    def open_below(self, *names: str) -> int:
        """Return a read-only descriptor of a regular file some steps down.

        Raises:
            NotFoundError: there is none.
            NotAuthenticError: it is anything but a regular file, or a step is a link.
        """
        fd = open_beneath(self.fd, [checked(name) for name in names], _READ)
        if fd is None:
            *folders, last = names
            with self.enter(*folders) as directory:
                return directory.open_file(last)
        return _regular(fd, names[-1])

    def open_file(self, name: str) -> int:
        """Return a read-only descriptor of a regular file.

        Raises:
            NotFoundError: there is none.
            NotAuthenticError: it is anything but a regular file.
        """
        with storing(shown(checked(name))):
            fd = os.open(name, _READ, dir_fd=self.fd)
        return _regular(fd, name)

    def create_file(self, name: str) -> int:
        """Return a descriptor of a new file, readable by its owner alone."""
        with storing(shown(checked(name))):
            return os.open(name, _CREATE, 0o600, dir_fd=self.fd)

    def read(self, name: str, limit: int) -> bytes:
        """Return a small file's bytes.

        Raises:
            NotFoundError: there is none.
            NotAuthenticError: it is longer than `limit`, or no regular file.
        """
        return _content(self.open_file(name), name, limit)

    def read_below(self, *names: str, limit: int) -> bytes:
        """Return the bytes of a small file some steps down; as `open_below` and `read`."""
        return _content(self.open_below(*names), names[-1], limit)

    def write(self, name: str, data: bytes) -> None:
        """Write a new file and make it durable; one that can't be written whole is removed."""
        file = os.fdopen(self.create_file(name), "wb")
        try:
            with storing(shown(name)), file:
                file.write(data)
                file.flush()
                os.fsync(file.fileno())
        except BaseException:
            self.remove(name)
            raise

    def directories(self) -> list[str]:
        """Return the names of real directories below, sorted."""
        return [name for name, is_directory in self._entries() if is_directory]

    def names(self) -> list[str]:
        """Return all names, sorted."""
        return [name for name, _ in self._entries()]

    def sync(self) -> None:
        """Make the names in it durable."""
        with storing("making a directory durable"):
            os.fsync(self.fd)

    def remove(self, name: str) -> None:
        """Remove a file, or a directory with all that it holds; fine if it is gone."""
        with storing(f"removing {shown(checked(name))}"), suppress(FileNotFoundError):
            if not _unlinked(name, self.fd):
                self._remove_tree(name)

    def remove_if_empty(self, name: str) -> bool:
        """Remove a directory if nothing is in it; tell whether it is gone."""
        with storing(f"removing {shown(checked(name))}"):
            try:
                os.rmdir(name, dir_fd=self.fd)
            except OSError as error:
                if error.errno in {errno.ENOTEMPTY, errno.EEXIST}:
                    return False
                raise
        return True

    def close(self) -> None:
        """Close the descriptor; twice is fine."""
        fd, self.fd = self.fd, -1
        if fd >= 0:
            os.close(fd)

    def _walk(self, names: tuple[str, ...], *, make: bool) -> Directory:
        if not names:
            return Directory(self._reopened())
        current = self
        for name in names:
            try:
                following = current._step(name, make=make)
            finally:
                if current is not self:
                    current.close()
            current = following
        return current

    def _step(self, name: str, *, make: bool) -> Directory:
        if make:
            self._make_durably(name)
        with storing(f"the directory {shown(checked(name))}"):
            return Directory(os.open(name, _DIRECTORY, dir_fd=self.fd))

    def _entries(self) -> list[tuple[str, bool]]:
        # opened anew: a copy of the descriptor would share its position with other threads
        with (
            storing("listing a directory of the store"),
            Directory(self._reopened()) as own,
            os.scandir(own.fd) as entries,
        ):
            return sorted((e.name, e.is_dir(follow_symlinks=False)) for e in entries)

    def _reopened(self) -> int:
        with storing("a directory of the store"):
            return os.open(".", _DIRECTORY, dir_fd=self.fd)

    def _make_durably(self, name: str) -> None:
        with suppress(AlreadyExistsError):
            self.make(name)
            self.sync()

    def _remove_tree(self, name: str) -> None:
        with self.enter(name) as root:
            while names := root.names():
                for inner in names:
                    _remove_level(root, inner)
        os.rmdir(name, dir_fd=self.fd)


def _remove_level(root: Directory, name: str) -> None:
    """Remove a file, or a directory; the directories in it come up to `root` before.

    So however deep somebody has dug, it takes two descriptors and no stack.
    """
    if _unlinked(name, root.fd):
        return
    with root.enter(name) as below:
        for inner in below.names():
            if not _unlinked(inner, below.fd):
                up = secrets.token_hex(16)
                os.rename(inner, up, src_dir_fd=below.fd, dst_dir_fd=root.fd)
    os.rmdir(name, dir_fd=root.fd)


def _unlinked(name: str, fd: int) -> bool:
    """Remove what isn't a directory; tell whether that was it."""
    try:
        os.unlink(name, dir_fd=fd)
    except IsADirectoryError:
        return False
    return True


def _regular(fd: int, name: str) -> int:
    """Return the descriptor of a regular file; of anything else it is closed."""
    regular = False
    try:
        with storing(shown(name)):
            regular = stat.S_ISREG(os.fstat(fd).st_mode)
    finally:
        if not regular:
            os.close(fd)
    if not regular:
        raise NotAuthenticError(f"{shown(name)} is no regular file")
    return fd


def _content(fd: int, name: str, limit: int) -> bytes:
    """Return what is in a file, which is closed; NotAuthenticError if it is longer."""
    with storing(shown(name)), os.fdopen(fd, "rb") as file:
        data = file.read(limit + 1)
    if len(data) > limit:
        raise NotAuthenticError(f"{shown(name)} is longer than {limit} bytes")
    return data


def checked(name: str) -> str:
    """Return a name that is one step down and nothing else, whatever it says."""
    if name in {"", ".", ".."} or "/" in name or "\0" in name:
        raise InvalidNameError(f"{shown(name)} is no name of a file")
    return name
