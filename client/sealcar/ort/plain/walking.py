"""Finds a file by a hostile name: the file that was opened is judged, never the path to it.

The path is walked part by part from an open directory, and links are followed by hand, so that for
every directory on the way there is a descriptor. Whether what was found lies inside is decided on
these. Whoever swaps a file or directory for a link meanwhile changes where the walk ends, and with
it the decision; he can't get between the two.
"""

from __future__ import annotations

import errno
import os
import stat
import weakref
from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING, Final

from sealcar.errors import ExhaustedError, InvalidPackageError, NotFoundError, StorageError

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

# to look at something without opening it: a FIFO isn't waited for, a device isn't set going
_LOOK: Final = os.O_PATH | os.O_NOFOLLOW | os.O_CLOEXEC
_READ: Final = os.O_RDONLY | os.O_CLOEXEC | os.O_NOCTTY
# as many as the kernel follows
_LINKS: Final = 40
_TOO_MANY: Final = (errno.ENFILE, errno.EMFILE)


class Folder:
    """An open directory, together with those above it.

    Args:
        path: absolute and real: no part of it is a link.

    Raises:
        InvalidPackageError: there is a link in it, or what it leads to is no directory.
        NotFoundError, StorageError, ExhaustedError: it can't be opened.
    """

    def __init__(self, path: str) -> None:
        with ExitStack() as opened, _reasons():
            walk = _Walk(opened, [], follow=False)
            walk.go(path)
            if walk.missing:
                raise NotFoundError("it doesn't exist")
            if not _is_folder(walk.stack[-1]):
                raise InvalidPackageError("it is no directory")
            self._above = tuple(walk.stack)
            self._opened = opened.pop_all()
        self._closing = weakref.finalize(self, self._opened.close)

    def close(self) -> None:
        """Close all of them; files that were opened stay open."""
        self._closing()

    def open(self, name: str) -> int:
        """Return the descriptor of a regular file inside, opened for reading.

        Args:
            name: relative; it may hold "..", lead through links, and even out, if it comes back.

        Raises:
            InvalidPackageError: it leads out, or to what is no regular file.
            NotFoundError: there is no such file.
            StorageError, ExhaustedError: it can't be opened.
        """
        check_relative(name)
        with ExitStack() as opened, _reasons():
            walk = _Walk(opened, self._above)
            walk.go(name)
            return walk.regular_file(inside=self._above)


def open_real(path: str) -> int:
    """Return the descriptor of a regular file, opened for reading.

    Args:
        path: absolute and real: no part of it is a link.

    Raises:
        InvalidPackageError: there is a link in it, or it is no regular file.
        NotFoundError, StorageError, ExhaustedError: it can't be opened.
    """
    with ExitStack() as opened, _reasons():
        walk = _Walk(opened, [], follow=False)
        walk.go(path)
        return walk.regular_file(inside=())


def check_relative(name: str) -> None:
    """Check what a name from a model must be before any look at the disk.

    Raises:
        InvalidPackageError: it is empty, absolute, or holds NUL.
    """
    if not name:
        raise InvalidPackageError("the name is empty")
    if "\0" in name:
        raise InvalidPackageError("the name holds NUL")
    if name.startswith("/"):
        raise InvalidPackageError("the path is absolute; it must be relative")


class _Walk:
    """A way through the file system.

    Attributes:
        stack: descriptors of the root directory and of everything from there down.
        missing: parts at the end that don't exist.
    """

    def __init__(self, opened: ExitStack, above: Sequence[int], *, follow: bool = True) -> None:
        self._opened = opened
        self._follow = follow
        self._links = 0
        self.stack = list(above) or [self._look("/", None)]
        self.missing = 0

    def go(self, path: str) -> None:
        rest = path.split("/")[::-1]
        while rest:
            part = rest.pop()
            if part not in ("", ".", ".."):
                rest += self._enter(part)
            elif self.missing:
                self.missing -= part == ".."
            elif not _is_folder(self.stack[-1]):
                raise InvalidPackageError("a part of the path is no directory")
            elif part == ".." and len(self.stack) > 1:
                self.stack.pop()

    def regular_file(self, inside: Sequence[int]) -> int:
        """Open what was reached, if it is a regular file below the directory `inside`."""
        if inside and not self._passed(len(inside) - 1, inside[-1]):
            raise InvalidPackageError("the path leads out of the directory that it is relative to")
        if self.missing:
            raise NotFoundError("the file doesn't exist")
        if not stat.S_ISREG(os.fstat(self.stack[-1]).st_mode):
            raise InvalidPackageError("it is no regular file")
        # the very file that was looked at: its name may mean another one by now
        return os.open(f"/proc/self/fd/{self.stack[-1]}", _READ)

    def _passed(self, depth: int, directory: int) -> bool:
        """Return whether this directory, and no other of its path, is on the way."""
        return len(self.stack) > depth and os.path.samestat(
            os.fstat(self.stack[depth]), os.fstat(directory)
        )

    def _enter(self, part: str) -> list[str]:
        """Go down one part; return the parts, last first, that a link puts in its place."""
        if self.missing:
            self.missing += 1
            return []
        try:
            found = self._look(part, self.stack[-1])
        except FileNotFoundError:
            self.missing += 1
            return []
        if not stat.S_ISLNK(os.fstat(found).st_mode):
            self.stack.append(found)
            return []
        self._links += 1
        if not self._follow or self._links > _LINKS:
            raise InvalidPackageError("a part of the path became a link, or links go in a circle")
        target = os.readlink("", dir_fd=found)
        if target.startswith("/"):
            del self.stack[1:]
        return target.split("/")[::-1]

    def _look(self, part: str, within: int | None) -> int:
        found = os.open(part, _LOOK, dir_fd=within)
        self._opened.callback(os.close, found)
        return found


def _is_folder(descriptor: int) -> bool:
    return stat.S_ISDIR(os.fstat(descriptor).st_mode)


@contextmanager
def _reasons() -> Iterator[None]:
    """Turn what the system says into an error of ours."""
    try:
        yield
    except NotADirectoryError as error:
        raise InvalidPackageError("a part of the path is no directory") from error
    except UnicodeError as error:
        raise InvalidPackageError("the name isn't UTF-8") from error
    except OSError as error:
        if error.errno == errno.ENAMETOOLONG:
            raise InvalidPackageError("the name is too long") from error
        if error.errno in _TOO_MANY:
            raise ExhaustedError("too many files; raise the limit (ulimit -n)") from error
        raise StorageError(f"it can't be opened: {error.strerror}") from error
