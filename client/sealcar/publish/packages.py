"""Opens what a package is made of: a directory, or an archive of one."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING, Final, Protocol

from sealcar import modelpackage
from sealcar.errors import InvalidPackageError
from sealcar.publish.archived import ArchivedPackage
from sealcar.publish.archives import Archive
from sealcar.publish.sources import SourceTree

if TYPE_CHECKING:
    from collections.abc import Iterator
    from contextlib import ExitStack
    from pathlib import Path

    from sealcar.publish.files import SourceFile, Tree

_RULES: Final = modelpackage.Rules(unique_keys=True)


class OpenedPackage(Protocol):
    """A package whose files can be opened."""

    @property
    def package(self) -> modelpackage.Package:
        """What its JSON files say."""

    def tree(self, directory: Path) -> Tree:
        """Return a directory of it, of a path that `package` has.

        Raises:
            InvalidPackageError: there is none, or a part of the path is a link.
            StorageError, ExhaustedError: it can't be opened.
        """


class DirectoryPackage:
    """A package in a directory.

    Args:
        package: read.
        files: closes the directories that are opened.
    """

    def __init__(self, package: modelpackage.Package, files: ExitStack) -> None:
        self.package = package
        self._files = files

    def tree(self, directory: Path) -> Tree:
        """Return a directory of it, none of whose parts is a link."""
        tree = SourceTree(self.package.root, directory.relative_to(self.package.root).parts)
        self._files.callback(tree.close)
        return tree


def open_directory(root: Path, files: ExitStack) -> OpenedPackage:
    """Open a package's directory.

    Raises:
        InvalidPackageError: it is no package, or breaks a rule of the format.
    """
    with _as_invalid():
        return DirectoryPackage(modelpackage.open(root, _RULES), files)


def open_archive(file: SourceFile, location: Path) -> OpenedPackage:
    """Open a package in a tar archive.

    Args:
        file: the archive.
        location: its path.

    Raises:
        InvalidPackageError: it is no package, breaks a rule of the format, or one of archives.
        StorageError: it can't be read.
    """
    archive = Archive(file)
    with _as_invalid():
        return ArchivedPackage(archive, location.parent.resolve() / location.name, _RULES)


@contextmanager
def _as_invalid() -> Iterator[None]:
    try:
        yield
    except modelpackage.PackageError as error:
        raise InvalidPackageError(str(error)) from error
