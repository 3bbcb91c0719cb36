"""One published generation: complete, immutable, opened file by file."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final, Protocol

from sealcar import names
from sealcar.errors import InvalidNameError

if TYPE_CHECKING:
    from collections.abc import Sequence
    from contextlib import AbstractContextManager

    from sealcar_server.sealing.sealed_file import SealedFile
    from sealcar_server.store.directory import Directory

MANIFEST: Final = "manifest.json"
MAX_MANIFEST: Final = 16 << 20
GENERATIONS: Final = "g"
ASSETS: Final = "shared_assets"
_URI: Final = re.compile(r"sha256:([0-9a-f]{64})")


class Generation(Protocol):
    """A place in a store. It holds no descriptor."""

    @property
    def name(self) -> str:
        """Of the package."""

    @property
    def version(self) -> str:
        """Of the package."""

    @property
    def number(self) -> int:
        """Of the generation in its version."""

    def manifest(self) -> bytes:
        """Return `manifest.json`.

        Raises:
            NotFoundError: the generation isn't there, or was pruned.
            NotAuthenticError: it is over 16 MiB, or nothing that a store has there.
        """

    def open_payload(self, component: str, variant: str, name: str) -> SealedFile:
        """Return a payload's file, open for reading, which the caller owns.

        Raises:
            InvalidNameError: the name breaks a rule.
            NotFoundError: there is no such file.
            NotAuthenticError: it is no regular file, or reached through a link.
        """

    def open_asset(self, uri: str, name: str) -> SealedFile:
        """Return a file of a shared asset; as `open_payload`."""

    def place_file(self, path: Sequence[str], folder: Directory) -> str:
        """Give one of its files the same name in a directory; return how.

        Args:
            path: steps from the generation's directory to the file, checked.
            folder: of the same store, on this machine.

        Returns:
            "link", "reflink" or "copy".

        Raises:
            NotFoundError: there is no such file.
            AlreadyExistsError: the name is taken.
            ExhaustedError: the disk is full.
        """

    def tree(self) -> AbstractContextManager[Directory]:
        """Give a directory with all its names, and files of the right sizes, for looking only."""


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
