"""Opens a plain package and finds the variant in it; a sealed one is told apart before any use."""

from __future__ import annotations

import os
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Final

from sealcar import modelpackage
from sealcar.errors import (
    InvalidPackageError,
    InvalidRequestError,
    NotFoundError,
    StorageError,
    WrongStateError,
)
from sealcar.names import harmless, shown

if TYPE_CHECKING:
    from collections.abc import Iterator

    from sealcar.modelpackage import Component, Package, Variant

# what sealing adds to the manifest and to each variant
_SEALED: Final = "sealcar"
_METADATA: Final = "additional_metadata"


def open_package(path: str | os.PathLike[str]) -> Package:
    """Open the plain package in a directory.

    Raises:
        InvalidRequestError: it is sealed.
        NotFoundError: there is no such directory, or something in it is missing.
        InvalidPackageError: it breaks a rule of the format.
        StorageError: it can't be read.
    """
    place = Path(path)
    if not os.path.isdir(place):  # noqa: PTH112  (says no to a path with NUL)
        raise NotFoundError(
            f"{shown(str(place))} is no directory; a plain package is one with a manifest.json"
        )
    with as_ours():
        package = modelpackage.open(place)
    metadata = package.manifest.get(_METADATA)
    if isinstance(metadata, dict) and _SEALED in metadata:
        raise _ciphertext(place)
    return package


def find_variant(
    package: Package, component: str | None, variant: str | None
) -> tuple[str, Variant]:
    """Return a component's name and the variant in it.

    Args:
        package: as it was opened.
        component: may be left out where the package has one.
        variant: may be left out where the component has one.

    Raises:
        InvalidRequestError: several match, or the variant is sealed.
        NotFoundError: none does.
    """
    parts: list[tuple[str, Component]] = list(package.components.items())
    matching = [
        (name, one)
        for name, part in parts
        for one in part.variants.values()
        if component in (None, name) and variant in (None, one.name)
    ]
    if not matching:
        raise NotFoundError(
            f"the package has no variant {shown(component or '*')}/{shown(variant or '*')}"
        )
    if len(matching) > 1:
        known = harmless(", ".join(f"{name}/{one.name}" for name, one in matching[:10]))
        raise InvalidRequestError(
            f"{len(matching)} variants match: {known}; name the component and the variant"
        )
    name, found = matching[0]
    if _SEALED in found.executor_info:
        raise _ciphertext(package.root)
    return name, found


@contextmanager
def as_ours() -> Iterator[None]:
    """Turn an error about a model package into one of `sealcar.errors`."""
    try:
        yield
    except modelpackage.MissingError as error:
        raise NotFoundError(str(error)) from error
    except modelpackage.FileAccessError as error:
        raise StorageError(str(error)) from error
    except modelpackage.StateError as error:
        raise WrongStateError(str(error)) from error
    except modelpackage.PackageError as error:
        raise InvalidPackageError(str(error)) from error


def _ciphertext(path: Path) -> InvalidRequestError:
    return InvalidRequestError(
        f"{shown(str(path))} is a sealed package: its files are ciphertext, which only the daemon "
        "can read; load it through a client: load(sealcar.connect(), NAME, …)"
    )
