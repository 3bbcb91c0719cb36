"""One published generation: complete, immutable, opened file by file."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from sealcar import names
from sealcar.errors import InvalidNameError
from sealcar_server.sealing.sealed_file import LocalFile

if TYPE_CHECKING:
    from collections.abc import Iterable

    from sealcar_server.sealing.sealed_file import SealedFile
    from sealcar_server.store.directory import Directory

MANIFEST: Final = "manifest.json"
MAX_MANIFEST: Final = 16 << 20
GENERATIONS: Final = "g"
ASSETS: Final = "shared_assets"
_URI: Final = re.compile(r"sha256:([0-9a-f]{64})")


@dataclass(frozen=True)
class Generation:
    """A place in the store. It holds no descriptor: every access walks from the root."""

    root: Directory = field(repr=False)
    name: str
    version: str
    number: int

    def manifest(self) -> bytes:
        """Return `manifest.json`.

        Raises:
            NotFoundError: the generation isn't there, or was pruned.
            NotAuthenticError: it is over 16 MiB, or no regular file.
        """
        with self.enter() as directory:
            return directory.read(MANIFEST, MAX_MANIFEST)

    def open_payload(self, component: str, variant: str, name: str) -> SealedFile:
        """Return a payload's file, open for reading, which the caller owns.

        Raises:
            InvalidNameError: the name breaks a rule.
            NotFoundError: there is no such file.
            NotAuthenticError: it is no regular file, or reached through a link.
        """
        return self._open(payload_path(component, variant, name))

    def open_asset(self, uri: str, name: str) -> SealedFile:
        """Return a file of a shared asset; as `open_payload`."""
        return self._open(asset_path(uri, name))

    def enter(self, *below: str) -> Directory:
        """Open the generation's directory, or one below it."""
        return self.root.enter(*self._steps, *below)

    def _open(self, path: Iterable[str]) -> SealedFile:
        return LocalFile(self.root.open_below(*self._steps, *path))

    @property
    def _steps(self) -> tuple[str, ...]:
        return self.name, self.version, GENERATIONS, str(self.number)


def payload_path(component: str, variant: str, name: str) -> list[str]:
    """Return the steps from a generation's directory to a payload's file; each is checked.

    Raises:
        InvalidNameError: a name breaks a rule of the format.
    """
    for text, what in ((component, "component name"), (variant, "variant name")):
        if names.part(text, what).casefold() in names.RESERVED:
            raise InvalidNameError(f"{what} {names.shown(text)} is a name of the format")
    return [component, variant, *names.payload(name).split("/")]


def asset_folder(uri: str) -> str:
    """Return the name of an asset's directory; InvalidNameError if it is no URI of an asset."""
    match = _URI.fullmatch(uri)
    if not match:
        raise InvalidNameError(f"{names.shown(uri)} is no URI of a shared asset")
    return f"sha256-{match[1]}"


def asset_path(uri: str, name: str) -> list[str]:
    """Return the steps from a generation's directory to a file of a shared asset; as above."""
    return [ASSETS, asset_folder(uri), *names.payload(name).split("/")]


def new_asset_path(label: str, name: str) -> list[str]:
    """Return the steps to a file of an asset that is staged and not named yet."""
    return [ASSETS, label, *names.payload(name).split("/")]
