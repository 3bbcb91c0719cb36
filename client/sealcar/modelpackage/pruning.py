"""Deletes what no part of a package needs any more, and never anything that one does.

It deletes what dead commits left over; directories that the native library's commits left over,
once they are a minute old; and the directories of variants and components that were removed by the
one who prunes. Of these it keeps the package itself, whatever a live directory is or lies in or
under, shared assets, and everything that is reached through a link.
"""

from __future__ import annotations

import os
import stat
import time
from contextlib import suppress
from typing import TYPE_CHECKING, Final

from sealcar.modelpackage import leftovers, saving, writing
from sealcar.modelpackage.assets import DIRECTORY
from sealcar.modelpackage.files import folder
from sealcar.modelpackage.paths import is_within, normal
from sealcar.modelpackage.reader import MANIFEST, open_package

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

    from sealcar.modelpackage.package import Package
    from sealcar.modelpackage.rules import Rules

_TEMPORARY: Final = ".tmp."
_GRACE: Final = 60.0


def prune(
    path: Path, rules: Rules, orphans: Iterable[str] = (), edited: Package | None = None
) -> list[str]:
    """Prune a package as it is on the disk.

    Args:
        path: its directory, a real path.
        rules: to read it by.
        orphans: absolute paths of directories that were removed from it.
        edited: as it may be saved next; what that needs is kept, too.

    Returns:
        Those of the orphans that were kept, for they may be needed.

    Raises:
        StateError: somebody else is changing the package.
        PackageError: it doesn't open, or something can't be deleted.
    """
    root = str(path)
    with writing.locked(root) as descriptor, writing.writes(root):
        leftovers.recover(descriptor, open_package(path, rules))
        package = open_package(path, rules)
        with suppress(FileNotFoundError), folder(DIRECTORY, descriptor) as above:
            _delete_old(above)
        # beside a directory that may not be written to, no save can have left anything
        with suppress(OSError), folder(str(path.parent)) as above:
            saving.sweep(above, path)
        live = _Live(root, [package] if edited is None else [package, edited])
        kept = []
        for orphan in orphans:
            text = normal(orphan).rstrip("/")
            if live.needs(text):
                kept.append(orphan)
            else:
                _delete(descriptor, text[len(root) + 1 :])
        return kept


def _delete_old(above: int) -> None:
    now = time.time()
    with os.scandir(above) as entries:
        old = [
            entry.name
            for entry in entries
            if _TEMPORARY in entry.name
            and entry.is_dir(follow_symlinks=False)
            and now - entry.stat(follow_symlinks=False).st_mtime >= _GRACE
        ]
    for name in sorted(old):
        writing.remove_tree(above, name)


class _Live:
    """What a package needs, as it is and as it may be saved next.

    Attributes:
        paths: all of it.
        trees: directories of which it needs everything inside.
    """

    def __init__(self, root: str, packages: Iterable[Package]) -> None:
        self._root = root
        self.paths = [f"{root}/{MANIFEST}"]
        self.trees = [f"{root}/{DIRECTORY}"]
        for package in packages:
            self._add(package)

    def _add(self, package: Package) -> None:
        self.trees += [asset.path for asset in package.shared_assets.values()]
        for component in package.components.values():
            if component.file:
                self.paths.append(str(component.file))
            for variant in component.variants.values():
                if variant.directory:
                    self.trees.append(str(variant.directory))
                self.paths += [str(i.file) for i in variant.executor_info.values() if i.file]

    def needs(self, path: str) -> bool:
        if not is_within(path, self._root) or path == self._root:
            return True
        if any(is_within(path, tree) for tree in self.trees):
            return True
        return any(is_within(live, path) for live in (*self.paths, *self.trees))


def _delete(root: int, path: str) -> None:
    above, _, name = path.rpartition("/")
    # a link on the way there, or none of it left
    with suppress(NotADirectoryError, FileNotFoundError), folder(above, root) as directory:
        found = os.stat(name, dir_fd=directory, follow_symlinks=False)
        if stat.S_ISDIR(found.st_mode):
            writing.remove_tree(directory, name)
