"""The shared assets of a package that is being changed."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from sealcar.modelpackage import shapes
from sealcar.modelpackage.assets import DIRECTORY, KEY, folder_name
from sealcar.modelpackage.errors import (
    AssetMismatchError,
    ConfinementError,
    SchemaError,
    StateError,
)
from sealcar.modelpackage.hashing import hash_directory
from sealcar.modelpackage.reader import PORTABLE
from sealcar.modelpackage.references import URI
from sealcar.modelpackage.values import SharedAsset

if TYPE_CHECKING:
    from sealcar.modelpackage.hashing import Progress
    from sealcar.modelpackage.json_text import Json
    from sealcar.modelpackage.package import Package


class Assets:
    """Which assets a package has, will get and will lose.

    Attributes:
        pending: directories to copy in when it is saved, by URI.
        removed: URIs of those whose directory at the default place goes then.
    """

    def __init__(self, package: Package) -> None:
        self._found = dict(package.shared_assets)
        self._declared = set(_declared(package))
        self.pending: dict[str, str] = {}
        self.removed: set[str] = set()

    def table(self) -> dict[str, SharedAsset]:
        """Return all of them, by URI; those to be copied in are where they come from."""
        return {
            **self._found,
            **{uri: SharedAsset(uri, path) for uri, path in self.pending.items()},
        }

    def add(
        self,
        package: Package,
        directory: str,
        *,
        expected: str | None,
        copy: bool,
        progress: Progress | None,
    ) -> tuple[str, dict[str, Json]]:
        """Add a directory; return its URI and the changed manifest.

        Raises:
            StateError: a portable package can't refer to it.
            MissingError: it is no directory.
            SchemaError: it is a link, or there is something else than files in it.
            AssetMismatchError: it isn't what was expected.
        """
        if not copy and package.layout == PORTABLE:
            raise StateError("a portable package can't refer to a directory outside", where=KEY)
        if copy and os.path.islink(directory):  # noqa: PTH114  (paths are text here)
            raise SchemaError(f"{directory!a} is a link", where=KEY)
        uri = hash_directory(directory, progress=progress, limits=package.rules.limits)
        if expected is not None and uri != expected:
            raise AssetMismatchError(f"{directory!a} is {uri}, not {expected[:90]!a}", where=KEY)
        declared = _declared(package)
        if copy:
            self.pending[uri] = os.path.realpath(directory)
        else:
            declared[uri] = directory
            path = package.paths.locate(package.paths.root, directory, KEY)
            found = {**self._found, uri: SharedAsset(uri, path)}
            # declared ones first, as a reader has them
            self._found = {key: found[key] for key in (*declared, *found) if key in found}
            self._declared.add(uri)
        self.removed.discard(uri)
        return uri, {**package.manifest, KEY: declared}

    def remove(self, package: Package, uri: str) -> dict[str, Json]:
        """Remove an asset, if it is there; return the changed manifest.

        Raises:
            ConfinementError: a portable package has a link where it should be.
        """
        manifest = dict(package.manifest)
        declared = _declared(package)
        place = f"{package.paths.root}/{DIRECTORY}/{folder_name(uri)}"
        if package.location is not None and URI.fullmatch(uri):
            if package.layout == PORTABLE and os.path.islink(place):  # noqa: PTH114  (the same)
                raise ConfinementError(f"{place!a} is a link", where=KEY)
            if os.path.lexists(place):
                self.removed.add(uri)
        declared.pop(uri, None)
        if declared:
            manifest[KEY] = declared
        else:
            manifest.pop(KEY, None)
        self._declared.discard(uri)
        self._found.pop(uri, None)
        self.pending.pop(uri, None)
        return manifest


def _declared(package: Package) -> dict[str, Json]:
    return dict(shapes.an_object(package.manifest.get(KEY, {}), KEY))
