"""Saves a changed package in its own directory, as a whole or not at all."""

from __future__ import annotations

import os
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from sealcar.modelpackage import leftovers, removals, shapes, writing
from sealcar.modelpackage.assets import DIRECTORY, KEY, folder_name, read_assets
from sealcar.modelpackage.edits import parts_of
from sealcar.modelpackage.errors import (
    AssetMismatchError,
    ConfinementError,
    FileAccessError,
    PackageError,
    StateError,
)
from sealcar.modelpackage.files import folder, read_document
from sealcar.modelpackage.hashing import hash_folder
from sealcar.modelpackage.json_text import Json, document
from sealcar.modelpackage.leftovers import Staged, Switch
from sealcar.modelpackage.paths import is_within
from sealcar.modelpackage.reader import COMPONENTS, MANIFEST, PORTABLE, read_manifest

if TYPE_CHECKING:
    from collections.abc import Mapping

    from sealcar.modelpackage.package import Package


@dataclass(frozen=True)
class Change:
    """What is to be saved.

    Attributes:
        package: as it is to be.
        read: the manifest that it was read from; another one in its place means a conflict.
        pending: directories to copy in as shared assets, by URI.
        removed: URIs of shared assets to delete from the default place.
    """

    package: Package
    read: bytes
    pending: Mapping[str, str]
    removed: frozenset[str]


def commit(change: Change) -> None:
    """Save a package in place.

    Raises:
        StateError: it was never saved, or somebody else changed it, or is changing it.
        AssetMismatchError: a directory to copy in changed since it was hashed.
        FileAccessError: it can't be written; nothing has changed.
        PackageError: it wouldn't open afterwards.
    """
    root = str(change.package.root)
    check(change.package)
    with writing.locked(root) as descriptor:
        if _current(change.package) != change.read:
            raise StateError("the package was changed by somebody else", where=root)
        with writing.writes(root):
            # a note that an earlier commit left must not be taken for one of this
            removals.finish(descriptor, change.package)
            _Commit(descriptor, change).run()


def _current(package: Package) -> bytes | None:
    try:
        return read_manifest(package.root, package.rules)
    except PackageError:
        return None


def check(package: Package) -> None:
    """Check that a package will open as it stands, before anything of it is written.

    Raises:
        PackageError: it won't.
    """
    parts = parts_of(package)
    files = [item.file for item in package.components.values() if item.file]
    folders = {above for file in files for above in file.parents}
    bodies: dict[Path, Mapping[str, Json]] = {}
    for name, component in package.components.items():
        where = shapes.member(COMPONENTS, name)
        file = component.file
        if file and bodies.setdefault(file, component.body) != component.body:
            raise StateError("another component in the same file says otherwise", where=where)
        if file and (file in folders or os.path.isdir(file)):  # noqa: PTH112  (never raises)
            raise FileAccessError(f"{str(file)!a} is a directory", where=where)
        if file and not package.paths.external and not is_within(str(file), str(package.root)):
            raise ConfinementError(f"{str(file)!a} is outside the package", where=where)
        limit = package.rules.limits.variants
        read = parts.body(name, dict(component.body), where, file=file, limit=limit)
        parts.with_files(read, where)
    read_assets(package.manifest, package.paths, portable=package.layout == PORTABLE)


class _Commit:
    def __init__(self, descriptor: int, change: Change) -> None:
        self._descriptor = descriptor
        self._change = change
        self._package = change.package
        self._root = str(change.package.root)
        self._suffix = f"{writing.STAGED}{writing.token()}"
        self._manifest = document(dict(change.package.manifest))
        self._files = self._changed_files()
        self._assets = self._new_assets()

    def run(self) -> None:
        same = self._manifest == self._change.read
        # what can be done by replacing one file is
        alone = same and not self._change.removed
        if self._assets or len(self._files) > 1 or (self._files and not alone):
            self._switch()
            return
        self._note(self._manifest)
        for (above, name), data in self._files.items():
            self._make(above)
            with folder(above) as directory:
                writing.replace(directory, name, data)
        if not same:
            writing.replace(self._descriptor, MANIFEST, self._manifest)
        self._tidy(None)

    def _switch(self) -> None:
        switch = Switch(
            tuple(Staged(*place, name) for place, name in self._staged_files().items()),
            tuple(
                Staged(f"{self._root}/{DIRECTORY}", name + self._suffix, name)
                for name in map(folder_name, self._assets)
            ),
            self._manifest,
        )
        interim = document(self._interim())
        try:
            self._stage()
            # only with this one: the last may be the same as the one before
            self._note(interim)
            writing.replace(self._descriptor, MANIFEST, interim)
        except BaseException:
            if _current(self._package) != interim:
                self._unstage(switch)
            raise
        self._tidy(switch)

    def _tidy(self, switch: Switch | None) -> None:
        # the package is saved; what can't be tidied up now can be by the next commit or prune
        with suppress(OSError, PackageError):
            removals.finish(self._descriptor, self._package)
            if switch:
                leftovers.settle(self._descriptor, switch)

    def _changed_files(self) -> dict[tuple[str, str], bytes]:
        changed = {}
        for component in self._package.components.values():
            if component.file:
                data = document(dict(component.body))
                if not _holds(component.file, data):
                    changed[str(component.file.parent), component.file.name] = data
        return changed

    def _new_assets(self) -> dict[str, str]:
        return {
            uri: source
            for uri, source in self._change.pending.items()
            if not Path(self._root, DIRECTORY, folder_name(uri)).is_dir()
        }

    def _staged_files(self) -> dict[tuple[str, str], str]:
        return {(above, name + self._suffix): name for above, name in self._files}

    def _interim(self) -> dict[str, Json]:
        """Return the manifest that refers to what is staged."""
        manifest = dict(self._package.manifest)
        listed = dict(shapes.required(manifest, COMPONENTS, ""))
        for name, component in self._package.components.items():
            file = component.file
            if file and (str(file.parent), file.name) in self._files:
                listed[name] = self._reference(f"{file}{self._suffix}")
        manifest[COMPONENTS] = listed
        if self._assets:
            declared = dict(shapes.an_object(manifest.get(KEY, {}), KEY))
            for uri in self._assets:
                place = f"{DIRECTORY}/{folder_name(uri)}{self._suffix}"
                declared.setdefault(uri, place)
            manifest[KEY] = declared
        return manifest

    def _reference(self, path: str) -> str:
        return os.path.relpath(path, self._root) if is_within(path, self._root) else path

    def _make(self, above: str) -> None:
        if is_within(above, self._root):
            writing.make_folders(above[len(self._root) :], self._descriptor)

    def _stage(self) -> None:
        for (above, name), data in self._files.items():
            self._make(above)
            with folder(above) as directory:
                writing.create(directory, name + self._suffix, data)
                os.fsync(directory)
        if self._assets:
            writing.make_folders(DIRECTORY, self._descriptor)
        for uri, source in self._assets.items():
            with folder(DIRECTORY, self._descriptor) as assets:
                copy_asset(uri, source, assets, folder_name(uri) + self._suffix)

    def _unstage(self, switch: Switch) -> None:
        with suppress(OSError):
            for item in (*switch.files, *switch.assets):
                with folder(item.above) as above:
                    writing.remove_tree(above, item.name)

    def _note(self, manifest: bytes) -> None:
        removed = [folder_name(uri) for uri in self._change.removed]
        if removed and Path(self._root, DIRECTORY).is_dir():
            removals.note(self._descriptor, removed, manifest)


def _holds(file: Path, data: bytes) -> bool:
    try:
        return not file.is_symlink() and read_document(str(file), len(data)) == data
    except PackageError:
        return False


def copy_asset(uri: str, source: str, above: int, name: str) -> None:
    """Copy a directory as an asset, and check that the copy is what the URI says.

    Raises:
        AssetMismatchError: it isn't.
        SchemaError: there is something else than files and directories in it.
        FileAccessError: it can't be read.
    """
    os.mkdir(name, dir_fd=above)
    try:
        with folder(os.path.realpath(source)) as origin, folder(name, above) as target:
            writing.copy_tree(origin, target)
            found = hash_folder(target)
    except FileNotFoundError as error:
        raise FileAccessError("is not there any more", where=source) from error
    if found != uri:
        raise AssetMismatchError(f"the asset is {found} now, not {uri}", where=source)
