"""Names of packages and versions, as a store can have them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from sealcar import names
from sealcar.errors import InvalidNameError

if TYPE_CHECKING:
    from collections.abc import Callable

IDENTITY: Final = "store.json"
CURRENT: Final = "current"
EQUAL_ASSETS: Final = "assets"


def store_package(name: str) -> str:
    """Check the name of a package; InvalidNameError if the store can't have one of that name."""
    if names.store_name(name) in {IDENTITY, EQUAL_ASSETS}:
        raise InvalidNameError(f"package name {name} is a name of the store")
    return name


def store_version(version: str) -> str:
    """Check a version; InvalidNameError if the store can't have one of that name."""
    if names.store_name(version, "version") == CURRENT:
        raise InvalidNameError(f"version {CURRENT} is a name of the store")
    return version


def fits(name: str, check: Callable[[str], str]) -> bool:
    """Tell whether a name passes a check."""
    try:
        check(name)
    except InvalidNameError:
        return False
    return True
