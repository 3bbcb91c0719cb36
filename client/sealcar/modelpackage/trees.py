"""Walks directory trees by descriptors, so that a link put in meanwhile leads nowhere."""

from __future__ import annotations

import os
import stat
from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING, Final

from sealcar.modelpackage.errors import FileAccessError, LimitError, SchemaError
from sealcar.modelpackage.files import open_folder, unreadable
from sealcar.modelpackage.rules import Limits

if TYPE_CHECKING:
    from collections.abc import Iterator

_LIMITS: Final = Limits()


class Kind(Enum):
    """What a name in a directory stands for."""

    FOLDER = "directory"
    FILE = "regular file"
    LINK = "link"
    OTHER = "special file"


@dataclass(frozen=True)
class Node:
    """One name in a tree.

    Attributes:
        path: relative to where the walk began.
        name: its last part.
        kind: links aren't followed.
        above: descriptor of the directory that holds it; open only until the next node is taken.
    """

    path: str
    name: str
    kind: Kind
    above: int

    def check_plain(self) -> None:
        """Check for a directory or a regular file.

        Raises:
            SchemaError: it is neither.
        """
        if self.kind not in (Kind.FOLDER, Kind.FILE):
            message = f"it is a {self.kind.value}, but may only be a file or directory"
            raise SchemaError(message, where=ascii(self.path))


def walk(root: int, limits: Limits | None = None) -> Iterator[Node]:
    """Yield everything below a directory, in the order of names, directories before their content.

    Raises:
        FileAccessError: a directory can't be read.
        LimitError: there is too much of it, or it is too deep.
    """
    limits = limits or _LIMITS
    for count, node in enumerate(_below(root, "", limits.tree_depth)):
        if count >= limits.tree_entries:
            raise LimitError(f"the directory has over {limits.tree_entries} entries")
        yield node


def _below(directory: int, prefix: str, depth: int) -> Iterator[Node]:
    if not depth:
        raise LimitError(f"{prefix!a} is too deep")
    for name, kind in _entries(directory, prefix):
        path = f"{prefix}{name}"
        yield Node(path, name, kind, directory)
        if kind is Kind.FOLDER:
            try:
                inner = open_folder(name, directory)
            except OSError as error:
                raise unreadable(ascii(path), error) from error
            try:
                yield from _below(inner, f"{path}/", depth - 1)
            finally:
                os.close(inner)


def _entries(directory: int, prefix: str) -> list[tuple[str, Kind]]:
    try:
        with os.scandir(directory) as entries:
            return sorted(((entry.name, _kind(entry)) for entry in entries), key=_by_name)
    except OSError as error:
        raise unreadable(ascii(prefix) or ".", error) from error


def _by_name(entry: tuple[str, Kind]) -> str:
    return entry[0]


def _kind(entry: os.DirEntry[str]) -> Kind:
    if entry.is_symlink():
        return Kind.LINK
    if entry.is_dir(follow_symlinks=False):
        return Kind.FOLDER
    return Kind.FILE if entry.is_file(follow_symlinks=False) else Kind.OTHER


def open_node(node: Node) -> int:
    """Open a regular file that a walk found.

    Raises:
        FileAccessError: it can't be opened, or isn't a regular file any more.
    """
    flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK
    try:
        descriptor = os.open(node.name, flags, dir_fd=node.above)
    except OSError as error:
        raise unreadable(ascii(node.path), error) from error
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        os.close(descriptor)
        raise FileAccessError("is not a regular file", where=ascii(node.path))
    return descriptor
