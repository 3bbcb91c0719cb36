"""A package in a tar archive: its members are read where they lie, and nothing is unpacked.

Whoever made the archive is trusted no more than a model is: it holds plain files and directories
below its top and nothing else, or it is refused whole.
"""

from __future__ import annotations

import bisect
import io
import tarfile
from typing import TYPE_CHECKING, Final

from sealcar.errors import InvalidPackageError
from sealcar.names import shown
from sealcar.publish.files import SourceFile, checked_name

if TYPE_CHECKING:
    from collections.abc import Iterator

MAX_MEMBERS: Final = 100_000
# a header with a member's long name or attributes; far more than any of them needs
_MAX_HEADER: Final = 1 << 16
# what a path may have on a disk
_MAX_PATH: Final = 4096
_BLOCK: Final = tarfile.BLOCKSIZE
_MAGIC: Final = (257, b"ustar")
_COMPRESSED: Final = {
    b"\x1f\x8b": "gzip",
    b"BZh": "bzip2",
    b"\xfd7zXZ": "xz",
    b"\x28\xb5\x2f\xfd": "zstd",
    b"PK\x03\x04": "zip",
}
# what the parser raises beside its own errors when a header makes no sense
_SENSELESS: Final = (tarfile.TarError, ValueError, LookupError, OverflowError, RecursionError)


def is_archive(file: SourceFile) -> bool:
    """Tell whether a file is a tar archive.

    Raises:
        InvalidPackageError: a compressed one, whose members can't be read where they lie.
        StorageError: it can't be read.
    """
    head = file.read(_BLOCK)
    for magic, how in _COMPRESSED.items():
        if head.startswith(magic):
            raise InvalidPackageError(
                f"{shown(file.name)} is compressed ({how}), and is never unpacked to a disk here; "
                "give the directory, or an archive without compression (tar -cf)"
            )
    start, magic = _MAGIC
    return head[start:].startswith(magic) or file.name.casefold().endswith(".tar")


class Archive:
    """The files and directories of an archive, by their names.

    Args:
        file: the archive, which must stay open.
        most: how many files and directories it may hold.

    Raises:
        InvalidPackageError: it is damaged, or holds something else or too much.
        StorageError: it can't be read.
    """

    def __init__(self, file: SourceFile, most: int = MAX_MEMBERS) -> None:
        self._file = file
        self._most = most
        self._files: dict[str, tuple[int, int]] = {}
        self._folders: set[str] = {""}
        try:
            self._index()
        except _SENSELESS as error:
            message = f"{shown(file.name)} is no tar archive, or is damaged: {error!a:.100}"
            raise InvalidPackageError(message) from error
        file.check_unchanged()
        self._sorted = sorted(self._files)

    def tops(self) -> set[str]:
        """Return what lies at the archive's top."""
        return {name.split("/", 1)[0] for name in (*self._files, *self._folders) if name}

    def is_file(self, name: str) -> bool:
        """Tell whether there is such a file."""
        return name in self._files

    def is_folder(self, name: str) -> bool:
        """Tell whether there is such a directory; the empty name is the top."""
        return name in self._folders

    def folders(self, above: str) -> list[str]:
        """Return the names of the directories in a directory, sorted."""
        found = (name.rpartition("/") for name in self._folders)
        return sorted(last for folder, _, last in found if folder == above and last)

    def open(self, name: str, shown_as: str) -> SourceFile:
        """Return a file.

        Args:
            name: in the archive.
            shown_as: what it is called in errors.

        Raises:
            InvalidPackageError: there is none.
        """
        if name not in self._files:
            raise InvalidPackageError(f"{shown(shown_as)} does not exist")
        return self._file.part(shown_as, *self._files[name])

    def below(self, prefix: str) -> Iterator[str]:
        """Yield the names of all files that begin so."""
        at = bisect.bisect_left(self._sorted, prefix)
        while at < len(self._sorted) and self._sorted[at].startswith(prefix):
            yield self._sorted[at]
            at += 1

    def _index(self) -> None:
        source = _Headers(self._file)
        with tarfile.TarFile(fileobj=source, mode="r", errorlevel=2) as tar:
            while (member := tar.next()) is not None:
                self._add(member)
                if len(self._files) + len(self._folders) > self._most:
                    raise InvalidPackageError(f"the archive has over {self._most} members")
                # else it keeps all of them, a second time
                tar.members.clear()  # type: ignore[attr-defined]  # has no other name
            # the parser takes a header that is damaged for the end
            if self._file.read(_BLOCK, tar.offset) != bytes(_BLOCK):
                raise InvalidPackageError("the archive is damaged, or its end is missing")

    def _add(self, member: tarfile.TarInfo) -> None:
        name = _canonical(member.name)
        if member.isdir():
            self._add_folder(name)
            return
        if not member.isreg() or member.issparse():
            what = "a link" if member.issym() or member.islnk() else "no plain file or directory"
            raise InvalidPackageError(f"member {shown(name)} of the archive is {what}")
        if not name or name in self._files or name in self._folders:
            raise InvalidPackageError(f"member {shown(name)} of the archive occurs twice")
        if member.size < 0 or member.offset_data + member.size > self._file.size:
            raise InvalidPackageError(f"member {shown(name)} of the archive is cut off")
        self._files[name] = (member.offset_data, member.size)
        self._add_folder(name.rpartition("/")[0])

    def _add_folder(self, name: str) -> None:
        while name not in self._folders:
            if name in self._files:
                raise InvalidPackageError(f"member {shown(name)} of the archive occurs twice")
            self._folders.add(name)
            name = name.rpartition("/")[0]


class ArchiveTree:
    """One directory of an archive.

    Args:
        archive: that it lies in.
        folder: its name there.
    """

    def __init__(self, archive: Archive, folder: str) -> None:
        self._archive = archive
        self._prefix = f"{folder}/" if folder else ""
        self._files: dict[str, SourceFile] = {}

    def open(self, name: str) -> SourceFile:
        """Return a file, the same for the same name.

        Raises:
            InvalidPackageError: the name breaks a rule, or there is no such file.
        """
        if name not in self._files:
            checked_name(name)
            self._files[name] = self._archive.open(self._prefix + name, name)
        return self._files[name]

    def walk(self) -> Iterator[str]:
        """Yield the names of all files, sorted.

        Raises:
            InvalidPackageError: one breaks a rule of payload names.
        """
        for name in self._archive.below(self._prefix):
            yield checked_name(name.removeprefix(self._prefix))


class _Headers(io.RawIOBase):
    """What the parser may read of an archive: headers, and no more at once than they need."""

    def __init__(self, file: SourceFile) -> None:
        super().__init__()
        self._file = file
        self._at = 0

    def read(self, size: int = -1, /) -> bytes:
        if not 0 <= size <= _MAX_HEADER:
            raise InvalidPackageError(f"a header of the archive has over {_MAX_HEADER} bytes")
        data = self._file.read(size, self._at) if self._at < self._file.size else b""
        self._at += len(data)
        return data

    def seek(self, offset: int, whence: int = io.SEEK_SET, /) -> int:
        if whence != io.SEEK_SET or offset < 0:
            raise InvalidPackageError("a header of the archive leads out of it")
        self._at = offset
        return offset

    def tell(self) -> int:
        return self._at


def _canonical(name: str) -> str:
    """Return a member's name without what doesn't count; empty for the top."""
    if len(name) > _MAX_PATH:
        raise InvalidPackageError(f"member {shown(name)} of the archive has too long a name")
    parts = name.split("/")
    if name.startswith("/") or ".." in parts:
        raise InvalidPackageError(f"member {shown(name)} of the archive lies outside of it")
    return "/".join(part for part in parts if part not in ("", "."))
