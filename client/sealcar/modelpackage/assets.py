"""The table of a package's shared assets: declared ones first, then those found on disk."""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import TYPE_CHECKING, Final

from sealcar.modelpackage import shapes
from sealcar.modelpackage.errors import ConfinementError, SchemaError
from sealcar.modelpackage.values import SharedAsset

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from sealcar.modelpackage.json_text import Json
    from sealcar.modelpackage.paths import Confinement

DIRECTORY: Final = "shared_assets"
_KEY: Final = "shared_assets"
_URI: Final = re.compile(r"sha256:[0-9a-f]{64}")
_FOLDER: Final = re.compile(r"sha256-[0-9a-f]{64}")


def read_assets(
    manifest: Mapping[str, Json], paths: Confinement, *, portable: bool
) -> tuple[SharedAsset, ...]:
    """Return all shared assets; of one URI, the first.

    Raises:
        SchemaError: the declaration is malformed.
        ConfinementError: one leads out of a portable package, or through a link.
    """
    where = f"$.{_KEY}"
    declared = _declared(shapes.an_object(manifest.get(_KEY, {}), where), where)
    found = list(_discovered(Path(paths.root) / DIRECTORY, portable=portable))
    table = {}
    for uri, text in declared.items():
        place = f"{where}.{uri}"
        if portable:
            paths.unlinked(f"{paths.root}/{text}" if text[:1] != "/" else text, place)
        table[uri] = paths.locate(paths.root, text, place)
    for uri, path in found:
        table.setdefault(uri, path)
    return tuple(SharedAsset(uri, path) for uri, path in table.items())


def _declared(table: Mapping[str, Json], where: str) -> dict[str, str]:
    declared = {}
    for uri, text in table.items():
        if not _URI.fullmatch(uri):
            raise SchemaError(f"{uri!a} must be sha256: and 64 lower-case hex digits", where=where)
        if not isinstance(text, str):
            raise SchemaError("must be a path", where=f"{where}.{uri}")
        declared[uri] = text
    return declared


def _discovered(directory: Path, *, portable: bool) -> Iterator[tuple[str, str]]:
    if portable and directory.is_symlink():
        raise ConfinementError(f"{str(directory)!a} is a link", where=DIRECTORY)
    if not directory.is_dir():
        return
    for entry in sorted(directory.iterdir(), key=os.fsencode):
        if not _FOLDER.fullmatch(entry.name):
            continue
        if portable and entry.is_symlink():
            raise ConfinementError(f"{str(entry)!a} is a link", where=DIRECTORY)
        if entry.is_dir():
            yield entry.name.replace("-", ":", 1), str(entry)
