"""Changes packages: nothing is written until all of it is, at once."""

from __future__ import annotations

import os
from dataclasses import replace
from typing import TYPE_CHECKING, Self

from sealcar.modelpackage import committing, edits, pending
from sealcar.modelpackage.dense import WriteMode, dense
from sealcar.modelpackage.errors import SchemaError, StateError
from sealcar.modelpackage.orphans import Orphans
from sealcar.modelpackage.pruning import prune
from sealcar.modelpackage.reader import read_manifest, read_package
from sealcar.modelpackage.saving import save_as

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path
    from types import TracebackType

    from sealcar.modelpackage.hashing import Progress
    from sealcar.modelpackage.package import Package


class Editor:
    """A package that is being changed.

    In a `with`, leaving it saves all changes, unless an exception leaves it, which discards them.
    A change that is refused changes nothing.

    Args:
        package: as it is on the disk, or one that was never saved.
        read: its manifest's text; nothing if it was never saved.
        destination: where a new one is saved when the `with` is left.
    """

    def __init__(
        self,
        package: Package,
        read: bytes = b"",
        *,
        destination: str | os.PathLike[str] | None = None,
    ) -> None:
        self._package = package
        self._read = read
        self._destination = destination
        self._assets = pending.Assets(package)
        self._orphans = Orphans()
        self._closed = False

    @property
    def package(self) -> Package:
        """The package with all changes up to now."""
        return replace(self._package, shared_assets=self._assets.table())

    def set_metadata(
        self, *, name: str | None = None, version: str | None = None, description: str | None = None
    ) -> None:
        """Set what is said of the whole package; None leaves it, "" removes it."""
        self._become(edits.with_head(self._current(), name, version, description))

    def set_layout(self, layout: str) -> None:
        """Set the layout, `portable` or `installed`."""
        self._become(edits.with_layout(self._current(), layout))

    def set_additional_metadata(
        self, value: object, *, component: str | None = None, variant: str | None = None
    ) -> None:
        """Set any JSON value as additional metadata of the package, a component or a variant."""
        self._become(edits.with_metadata(self._current(), value, component, variant))

    def remove_additional_metadata(
        self, *, component: str | None = None, variant: str | None = None
    ) -> None:
        """Remove the additional metadata of the package, a component or a variant."""
        self._become(edits.without_metadata(self._current(), component, variant))

    def set_component(self, name: str, body: Mapping[str, object]) -> None:
        """Set a whole component, to stand in the manifest."""
        self._become(edits.with_component(self._current(), name, body), component=name)

    def set_component_file(self, name: str, path: str | os.PathLike[str]) -> None:
        """Set a component that stands in a file, or in a directory's `component.json`.

        A file that doesn't exist will be made, with no variants.

        Raises:
            StateError: the package was never saved.
        """
        self._become(
            edits.with_component_file(self._current(), name, os.fspath(path)), component=name
        )

    def remove_component(self, name: str) -> None:
        """Remove a component if it is there; its files stay until a prune after the commit."""
        self._become(edits.without_component(self._current(), name), component=name)

    def set_variant(self, component: str, variant: str, body: Mapping[str, object]) -> None:
        """Set a whole variant; a directory that it declares must exist."""
        changed = edits.with_variant(self._current(), component, variant, body)
        self._become(changed, component=component, variant=variant)

    def remove_variant(self, component: str, variant: str) -> None:
        """Remove a variant if it is there; its files stay until a prune after the commit."""
        changed = edits.without_variant(self._current(), component, variant)
        self._become(changed, component=component, variant=variant)

    def set_executor_info(
        self, component: str, variant: str, namespace: str, value: Mapping[str, object]
    ) -> None:
        """Set what an executor is told about a variant."""
        if isinstance(value, str):
            raise SchemaError("must be an object; a file's path has a method of its own")
        self._become(edits.with_info(self._current(), component, variant, namespace, value))

    def set_executor_info_file(
        self, component: str, variant: str, namespace: str, path: str | os.PathLike[str]
    ) -> None:
        """Set the file, in the variant's directory, that holds what an executor is told.

        It may be written later, but must be there when the package is saved.
        """
        file = os.fspath(path)
        self._become(edits.with_info(self._current(), component, variant, namespace, file))

    def remove_executor_info(self, component: str, variant: str, namespace: str) -> None:
        """Remove what an executor is told, if it is told anything."""
        self._become(edits.without_info(self._current(), component, variant, namespace))

    def add_shared_asset(
        self,
        directory: str | os.PathLike[str],
        *,
        expected: str | None = None,
        copy: bool = True,
        progress: Progress | None = None,
    ) -> str:
        """Add a directory as a shared asset; return its URI.

        Args:
            directory: is hashed now, and copied when the package is saved.
            expected: the URI that it must have.
            copy: False refers to the directory where it is; only an installed package may.
            progress: told how far the hash is.

        Raises:
            AssetMismatchError: it has another URI.
            StateError: a portable package can't refer to it.
        """
        package = self._current()
        uri, manifest = self._assets.add(
            package, os.fsdecode(directory), expected=expected, copy=copy, progress=progress
        )
        self._become(replace(package, manifest=manifest))
        return uri

    def remove_shared_asset(self, uri: str) -> None:
        """Remove a shared asset if it is there: a declared one from the manifest, others wholly."""
        package = self._current()
        self._become(replace(package, manifest=self._assets.remove(package, uri)))

    def commit(self, mode: WriteMode = WriteMode.PRESERVE) -> None:
        """Save all changes in the package's own directory, at once.

        Raises:
            StateError: it was never saved, or somebody else changed it.
            FileAccessError: it can't be written; nothing has changed.
            PackageError: it wouldn't open afterwards.
        """
        package = self._written(mode)
        change = committing.Change(
            package, self._read, self._assets.pending, frozenset(self._assets.removed)
        )
        committing.commit(change)
        self._reread(package.root)
        self._orphans.saved()

    def save_as(
        self, destination: str | os.PathLike[str], mode: WriteMode = WriteMode.PRESERVE
    ) -> None:
        """Save the package with all its files to an empty or new directory, and go on there.

        Raises:
            StateError: there is something already.
            FileAccessError: it can't be written; nothing is left of it.
            PackageError: a part of it is missing, or isn't what it should be.
        """
        package = replace(self._written(mode), shared_assets=self._assets.table())
        self._reread(save_as(package, destination))
        self._orphans = Orphans()

    def prune(self) -> None:
        """Delete what is left over in the package's directory, as it was last saved.

        That is what dead commits left, and the directories of variants and components that were
        removed here and aren't needed. Before the removal is saved, they still are.
        """
        root = self._current().location
        if root is not None:
            rules = self._package.rules
            kept = prune(root, rules, self._orphans.prunable, self._package)
            self._orphans.left(kept)

    def discard(self) -> None:
        """Forget all changes; a second time does nothing."""
        self._closed = True

    def _current(self) -> Package:
        if self._closed:
            raise StateError("the editing of the package has ended")
        return self._package

    def _written(self, mode: WriteMode) -> Package:
        package = self._current()
        return dense(package) if mode is WriteMode.DENSE else package

    def _become(
        self, package: Package, *, component: str | None = None, variant: str | None = None
    ) -> None:
        self._orphans.note(self._package, package, component, variant)
        self._package = package

    def _reread(self, root: Path) -> None:
        rules = self._package.rules
        self._read = read_manifest(root, rules)
        self._package = read_package(root, self._read, rules)
        self._assets = pending.Assets(self._package)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        if kind is None and not self._closed:
            if self._package.location is None and self._destination is not None:
                self.save_as(self._destination)
            else:
                self.commit()
        self.discard()
