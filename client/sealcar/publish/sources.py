"""The files of a publisher: opened once, from a directory's descriptor, never through a link.

Everything that isn't a plain file with exactly one name is refused: links and hard links
lead to what the publisher may read but never meant to publish.
"""

from __future__ import annotations

import errno
import os
import stat
import weakref
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final

from sealcar.errors import ExhaustedError, InvalidPackageError, NotFoundError, StorageError
from sealcar.names import shown
from sealcar.publish.files import SourceFile, checked_name

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from pathlib import Path

_FLAGS: Final = os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK
_TOO_MANY: Final = (errno.ENFILE, errno.EMFILE)


class SourceTree:
    """A directory whose files are opened by relative names.

    Args:
        directory: links on the way to it are followed; none below it is.
        parts: names of directories that lead from there to the tree.
    """

    def __init__(self, directory: Path, parts: tuple[str, ...] = ()) -> None:
        try:
            top = os.open(directory, os.O_RDONLY | os.O_CLOEXEC | os.O_DIRECTORY)
        except OSError as error:
            raise NotFoundError(f"{shown(str(directory))}: {error.strerror}") from error
        with _reasons("/".join(parts)):
            self._fd = _descend(top, parts)
        self._closing = weakref.finalize(self, os.close, self._fd)
        self._files: dict[str, SourceFile] = {}

    def close(self) -> None:
        """Close the directory and all files opened in it."""
        self._closing()
        for file in self._files.values():
            file.close()

    def open(self, name: str, *, named_by_caller: bool = False) -> SourceFile:
        """Return a file, the same for the same name.

        Args:
            name: a payload's name.
            named_by_caller: the person who publishes chose it, not a model; then other names of the
                file (hard links, as package installers make them) don't matter, nor does its own.

        Raises:
            InvalidPackageError: the name breaks a rule, or it's no plain file.
            NotFoundError, StorageError, ExhaustedError: it can't be opened.
        """
        if name not in self._files:
            if not named_by_caller:
                checked_name(name)
            with _reasons(name):
                self._files[name] = self._open(name, named_by_caller=named_by_caller)
        return self._files[name]

    def walk(self) -> Iterator[str]:
        """Yield the names of all files, sorted; directories are entered, nothing is followed.

        Raises:
            InvalidPackageError: an entry's name breaks a rule of payload names, or it is neither
            file nor directory. StorageError, ExhaustedError: a directory can't be read.
        """
        yield from self._walk(self._fd, "")

    def _walk(self, directory: int, prefix: str) -> Iterator[str]:
        with _reasons(prefix):
            entries = sorted(os.listdir(directory))
        for entry in entries:
            name = checked_name(prefix + entry)
            with _reasons(name):
                mode = os.stat(entry, dir_fd=directory, follow_symlinks=False).st_mode
            if not stat.S_ISDIR(mode):
                _plain(mode, name)
                yield name
                continue
            with _reasons(name):
                inner = os.open(entry, _FLAGS | os.O_DIRECTORY, dir_fd=directory)
            try:
                yield from self._walk(inner, f"{name}/")
            finally:
                os.close(inner)

    def _open(self, name: str, *, named_by_caller: bool) -> SourceFile:
        *parents, last = name.split("/")
        directory = _descend(os.dup(self._fd), parents)
        try:
            # looked at first: to open a device can set it going
            _plain(os.stat(last, dir_fd=directory, follow_symlinks=False).st_mode, name)
            fd = os.open(last, _FLAGS, dir_fd=directory)
        finally:
            os.close(directory)
        file = SourceFile(fd, name)
        found = os.fstat(fd)
        _plain(found.st_mode, name)
        if found.st_nlink != 1 and not named_by_caller:
            raise InvalidPackageError(f"{shown(name)} has {found.st_nlink} hard links; copy it")
        return file


def _descend(directory: int, parts: Iterable[str]) -> int:
    """Return the directory below, and close the one given."""
    for part in parts:
        try:
            inner = os.open(part, _FLAGS | os.O_DIRECTORY, dir_fd=directory)
        finally:
            os.close(directory)
        directory = inner
    return directory


def _plain(mode: int, name: str) -> None:
    if stat.S_ISLNK(mode):
        raise InvalidPackageError(f"{shown(name)} is a symbolic link; put the file itself there")
    if not stat.S_ISREG(mode):
        raise InvalidPackageError(f"{shown(name)} is not a regular file")


@contextmanager
def _reasons(name: str) -> Iterator[None]:
    """Turn what the system says into an error about this name."""
    try:
        yield
    except FileNotFoundError as error:
        raise InvalidPackageError(f"{shown(name)} does not exist") from error
    except NotADirectoryError as error:
        # so says the kernel of a link, too, where a directory has to be
        raise InvalidPackageError(f"{shown(name)}: a part of it is no directory") from error
    except OSError as error:
        if error.errno == errno.ELOOP:
            raise InvalidPackageError(f"{shown(name)}: a part of it is a link") from error
        if error.errno in _TOO_MANY:
            raise ExhaustedError("too many files; raise the limit (ulimit -n)") from error
        raise StorageError(f"{shown(name)}: {error.strerror}") from error
