"""Writes files and directories so that they are whole or not there, and there after a power cut."""

from __future__ import annotations

import fcntl
import os
import re
import secrets
import shutil
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Final

from sealcar.modelpackage.errors import FileAccessError, LimitError, StateError
from sealcar.modelpackage.files import folder, open_folder, unreadable
from sealcar.modelpackage.trees import Kind, Node, open_node, walk

if TYPE_CHECKING:
    from collections.abc import Iterator

    from sealcar.modelpackage.rules import Limits

# between a final name and a token: what isn't referred to under such a name is left over
STAGED: Final = ".commit."
_STAGED: Final = re.compile(rf"(.*){re.escape(STAGED)}[0-9a-f]{{16}}", re.DOTALL)
_NEW: Final = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
_PIECE: Final = 1 << 20
_FILE_MODE: Final = 0o644
_RUNNABLE: Final = 0o777


def token() -> str:
    """Return 16 hexadecimal digits that no other writer uses."""
    return secrets.token_hex(8)


def final_name(name: str) -> str | None:
    """Return the final name of something staged; None if it isn't named so."""
    match = _STAGED.fullmatch(name)
    return match[1] if match else None


@contextmanager
def writes(what: str) -> Iterator[None]:
    """Turn the operating system's errors into those of this package."""
    try:
        yield
    except OSError as error:
        raise FileAccessError(f"can't be written: {error.strerror}", where=what) from error
    except ValueError as error:  # no file can be called so
        raise FileAccessError(f"can't be written: {error}", where=ascii(what)) from error


@contextmanager
def locked(root: str) -> Iterator[int]:
    """Give the descriptor of a package's directory, which nobody else changes meanwhile.

    Raises:
        StateError: somebody is changing it.
        FileAccessError: it can't be opened.
    """
    try:
        descriptor = open_folder(root)
    except OSError as error:
        raise unreadable(root, error) from error
    try:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            raise StateError("somebody else is changing the package", where=root) from error
        yield descriptor
    finally:
        os.close(descriptor)


def create(directory: int, name: str, data: bytes) -> None:
    """Write a new file, and wait until it is on the disk."""
    descriptor = os.open(name, _NEW, _FILE_MODE, dir_fd=directory)
    try:
        left = memoryview(data)
        while left:
            left = left[os.write(descriptor, left) :]
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def replace(directory: int, name: str, data: bytes) -> None:
    """Write a file whole or not at all; a link of that name gives way to a file."""
    temporary = f"{name}{STAGED}{token()}"
    try:
        create(directory, temporary, data)
        os.rename(temporary, name, src_dir_fd=directory, dst_dir_fd=directory)
    except OSError:
        with suppress(OSError):
            os.unlink(temporary, dir_fd=directory)
        raise
    os.fsync(directory)


def make_folders(path: str, within: int) -> None:
    """Make a directory and those above it, as far as they are missing."""
    current = os.dup(within)
    try:
        for part in path.split("/"):
            if part in ("", "."):
                continue
            with suppress(FileExistsError):
                os.mkdir(part, dir_fd=current)
                os.fsync(current)
            following = open_folder(part, current)
            os.close(current)
            current = following
    finally:
        os.close(current)


def copy_file(node: Node, target: int, name: str) -> None:
    """Copy a regular file that a walk found, and whether it may be run."""
    source = open_node(node)
    try:
        copy_descriptor(source, target, name)
    finally:
        os.close(source)


def copy_descriptor(source: int, target: int, name: str) -> None:
    """Copy an open regular file into a new one, and whether it may be run."""
    mode = os.fstat(source).st_mode & _RUNNABLE
    made = os.open(name, _NEW, mode, dir_fd=target)
    try:
        while os.sendfile(made, source, None, _PIECE):
            pass
        os.fchmod(made, mode)
        os.fsync(made)
    finally:
        os.close(made)


def link_file(node: Node, target: int, name: str) -> None:
    """Give a file that a walk found a second name; copy it where that can't be."""
    try:
        os.link(node.name, name, src_dir_fd=node.above, dst_dir_fd=target, follow_symlinks=False)
    except OSError:
        copy_file(node, target, name)


def copy_tree(
    source: int, target: int, *, linking: bool = False, limits: Limits | None = None
) -> None:
    """Copy everything in one directory, which holds files and directories only, into another.

    Args:
        source: where from.
        target: where to; it is empty.
        linking: files get a second name instead of a copy.
        limits: for the size of the tree.

    Raises:
        SchemaError, FileAccessError, LimitError: as `walk`; there is something else in it.
    """
    give = link_file if linking else copy_file
    for node in walk(source, limits):
        above = node.path.rpartition("/")[0]
        with folder(above, target) as inside:
            if node.kind is Kind.FOLDER:
                os.mkdir(node.name, dir_fd=inside)
            else:
                node.check_plain()
                give(node, inside, node.name)
    sync_tree(target, limits)


def sync_tree(root: int, limits: Limits | None = None) -> None:
    """Wait until all names in a tree are on the disk."""
    for node in walk(root, limits):
        if node.kind is Kind.FOLDER:
            with folder(node.name, node.above) as inside:
                os.fsync(inside)
    os.fsync(root)


def remove_tree(directory: int, name: str) -> None:
    """Delete a directory and everything in it, or a file; links are deleted, never followed.

    Raises:
        LimitError: it is far deeper than anything that is written here.
        OSError: it can't be deleted.
    """
    try:
        os.unlink(name, dir_fd=directory)
    except IsADirectoryError:
        try:
            shutil.rmtree(name, dir_fd=directory)
        except RecursionError:
            message = "is nested too deep to be deleted; remove it by hand"
            raise LimitError(message, where=ascii(name)) from None
    except FileNotFoundError:
        return
    os.fsync(directory)
