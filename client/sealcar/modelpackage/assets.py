"""The table of a package's shared assets: declared ones first, then those found on disk."""

from __future__ import annotations

import os
import re
from typing import TYPE_CHECKING, Final

from sealcar.modelpackage import shapes
from sealcar.modelpackage.errors import ConfinementError, SchemaError
from sealcar.modelpackage.paths import joined
from sealcar.modelpackage.references import URI
from sealcar.modelpackage.values import SharedAsset

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from sealcar.modelpackage.json_text import Json
    from sealcar.modelpackage.paths import Confinement

DIRECTORY: Final = "shared_assets"
KEY: Final = "shared_assets"
FOLDER: Final = re.compile(r"sha256-[0-9a-f]{64}")


def folder_name(uri: str) -> str:
    """Return the name of an asset's directory at the default place."""
    return uri.replace(":", "-", 1)


def read_assets(
    manifest: Mapping[str, Json], paths: Confinement, *, portable: bool
) -> dict[str, SharedAsset]:
    """Return all shared assets; of one URI, the first.

    Raises:
        SchemaError: the declaration is malformed.
        ConfinementError: one leads out of a portable package, or through a link.
    """
    declared = _declared(shapes.an_object(manifest.get(KEY, {}), KEY))
    found = list(_discovered(f"{paths.root}/{DIRECTORY}", portable=portable)) if paths.root else []
    table = {}
    for uri, text in declared.items():
        place = shapes.member(KEY, uri)
        if portable:
            paths.unlinked(joined(paths.root, text), place)
        table[uri] = paths.locate(paths.root, text, place)
    for uri, path in found:
        table.setdefault(uri, path)
    return {uri: SharedAsset(uri, path) for uri, path in table.items()}


def _declared(table: Mapping[str, Json]) -> dict[str, str]:
    declared = {}
    for uri, text in table.items():
        where = shapes.member(KEY, uri)
        if not URI.fullmatch(uri):
            raise SchemaError("must be sha256: and 64 lower-case hex digits", where=where)
        if not isinstance(text, str):
            raise SchemaError("must be a path", where=where)
        declared[uri] = text
    return declared


def _discovered(directory: str, *, portable: bool) -> Iterator[tuple[str, str]]:
    if portable and os.path.islink(directory):  # noqa: PTH114  (paths are text here)
        raise ConfinementError(f"{directory!a} is a link", where=DIRECTORY)
    if not os.path.isdir(directory):  # noqa: PTH112  (the same)
        return
    with os.scandir(directory) as entries:
        found = sorted(
            (item for item in entries if FOLDER.fullmatch(item.name)), key=lambda item: item.name
        )
    for entry in found:
        if portable and entry.is_symlink():
            raise ConfinementError(f"{entry.path!a} is a link", where=DIRECTORY)
        if entry.is_dir():
            yield entry.name.replace("-", ":", 1), entry.path
