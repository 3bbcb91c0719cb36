"""Plain packages: variants that are read from the disk as sealed ones are from the daemon."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sealcar.ort.plain.directories import DirectoryScope
from sealcar.ort.plain.packages import find_variant, open_package

if TYPE_CHECKING:
    import os

__all__ = ["DirectoryScope", "find_variant", "open_package", "open_variant"]


def open_variant(
    path: str | os.PathLike[str], component: str | None = None, variant: str | None = None
) -> DirectoryScope:
    """Return a variant of the plain package in a directory.

    Args:
        path: the package's directory.
        component: may be left out where the package has one.
        variant: may be left out where the component has one.

    Raises:
        InvalidRequestError: several match, or the package is sealed.
        NotFoundError: there is no such package, component or variant.
        InvalidPackageError: the package breaks a rule of the format.
        StorageError: it can't be read.
    """
    package = open_package(path)
    return DirectoryScope(package, *find_variant(package, component, variant))
