"""A generation in a directory."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from sealcar_server.sealing.sealed_file import LocalFile
from sealcar_server.store import copying
from sealcar_server.store.generation import (
    GENERATIONS,
    MANIFEST,
    MAX_MANIFEST,
    asset_path,
    payload_path,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from sealcar_server.sealing.sealed_file import SealedFile
    from sealcar_server.store.directory import Directory


@dataclass(frozen=True)
class LocalGeneration:
    """A `Generation`. Every access walks from the root."""

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
        return self.root.read_below(*self._steps, MANIFEST, limit=MAX_MANIFEST)

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

    def place_file(self, path: Sequence[str], folder: Directory) -> str:
        """Give a file a second name: hard link, else reflink, else copy; as `Generation`."""
        with self.enter(*path[:-1]) as origin:
            return copying.place(origin, folder, path[-1])

    def tree(self) -> Directory:
        """Give the generation's own directory."""
        return self.enter()

    def enter(self, *below: str) -> Directory:
        """Open the generation's directory, or one below it."""
        return self.root.enter(*self._steps, *below)

    def _open(self, path: Iterable[str]) -> SealedFile:
        return LocalFile(self.root.open_below(*self._steps, *path))

    @property
    def _steps(self) -> tuple[str, ...]:
        return self.name, self.version, GENERATIONS, str(self.number)
