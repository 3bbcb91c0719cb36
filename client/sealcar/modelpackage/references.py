"""Resolves references: a path, the URI of a shared asset, or a path in a shared asset."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import TYPE_CHECKING, Final

from sealcar.modelpackage.errors import AssetMissingError
from sealcar.modelpackage.paths import resolved_prefix

if TYPE_CHECKING:
    from collections.abc import Mapping

    from sealcar.modelpackage.paths import Confinement
    from sealcar.modelpackage.values import SharedAsset

URI: Final = re.compile(r"sha256:[0-9a-f]{64}")
_REFERENCE: Final = re.compile(rf"({URI.pattern})(?:/(.*))?", re.DOTALL)
# a NUL ends the text for the reference implementation
_WHERE: Final = ""


def resolve(
    text: str,
    base: str,
    assets: Mapping[str, SharedAsset],
    paths: Confinement,
    *,
    must_exist: bool,
) -> str:
    """Return where a reference leads.

    Raises:
        AssetMissingError: no such asset.
        MissingError: it doesn't exist, though it must.
        ConfinementError, InvalidPathError: it may not be used.
    """
    match = _REFERENCE.fullmatch(text)
    if match:
        # an asset is portable whatever the package is
        base = asset(match[1], assets).path
        paths = replace(paths, root=_asset_root(base), external=False)
        text = match[2] or "."
    if must_exist:
        return paths.resolve(base, text, _WHERE)
    return paths.locate(base, text, _WHERE)


def asset(uri: str, assets: Mapping[str, SharedAsset]) -> SharedAsset:
    """Return the asset of a URI.

    Raises:
        AssetMissingError: no such asset.
    """
    found = assets.get(uri)
    if found is None:
        raise AssetMissingError(f"the package has no asset {ascii(uri)[:90]}")
    return found


def _asset_root(path: str) -> str:
    return resolved_prefix(path)
