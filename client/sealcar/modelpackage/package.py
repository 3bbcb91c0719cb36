"""An opened package: what it says, and where its references lead."""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from typing import IO, TYPE_CHECKING, Self

from sealcar.modelpackage import references
from sealcar.modelpackage.errors import StateError
from sealcar.modelpackage.files import open_regular
from sealcar.modelpackage.paths import Confinement

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path
    from types import TracebackType

    from sealcar.modelpackage.json_text import Json
    from sealcar.modelpackage.rules import Rules
    from sealcar.modelpackage.values import Component, SchemaVersion, SharedAsset


@dataclass(frozen=True)
class Package:
    """A model package as it was when it was opened.

    Its values stay readable for ever; what looks at the disk again is over once it is closed.

    Attributes:
        location: its directory, a real path; None if it has never been saved.
        schema_version: of the format.
        name, version, description: None where unset.
        layout: `portable` (nothing outside the root) or `installed`.
        components: by name, in order of declaration.
        shared_assets: by URI; declared ones first, then those discovered.
        manifest: as parsed, unknown fields included.
        rules: under which it was read.
    """

    location: Path | None
    schema_version: SchemaVersion
    name: str | None
    version: str | None
    description: str | None
    layout: str
    components: Mapping[str, Component]
    shared_assets: Mapping[str, SharedAsset]
    manifest: Mapping[str, Json]
    rules: Rules = field(repr=False)
    _closed: list[bool] = field(default_factory=list, init=False, repr=False, compare=False)

    @property
    def root(self) -> Path:
        """Its directory, a real path.

        Raises:
            StateError: it has never been saved.
        """
        if self.location is None:
            raise StateError("the package has never been saved")
        return self.location

    @property
    def paths(self) -> Confinement:
        """The rules that its paths obey."""
        root = "" if self.location is None else str(self.location)
        external = self.rules.allow_external_paths or self.layout == "installed"
        return Confinement(root, external, self.rules.follow_symlinks)

    def resolve(
        self,
        reference: str | os.PathLike[str],
        *,
        base: str | os.PathLike[str] | None = None,
        must_exist: bool = False,
    ) -> str:
        """Return where a path, or the URI of a shared asset and a path in it, leads.

        Args:
            reference: a path, `sha256:<hex>` or `sha256:<hex>/<path>`.
            base: what a path is relative to, such as a variant's directory; the root if not given.
            must_exist: refuse what doesn't exist.

        Raises:
            AssetMissingError: the package has no such asset.
            MissingError: it doesn't exist, though it must.
            ConfinementError, InvalidPathError: it may not be used in this package.
            StateError: the package is closed, or has never been saved.
        """
        self._check_open()
        within = str(self.root) if base is None else os.fspath(base)
        return references.resolve(
            os.fspath(reference), within, self.shared_assets, self.paths, must_exist=must_exist
        )

    def resolve_asset(self, uri: str) -> str:
        """Return where a shared asset is, or would be.

        Raises:
            AssetMissingError: the package has no such asset.
            StateError: the package is closed.
        """
        self._check_open()
        return references.asset(uri, self.shared_assets).path

    def open_file(self, reference: str, *, base: str | os.PathLike[str] | None = None) -> IO[bytes]:
        """Open the regular file that a reference leads to; no link is followed after the check.

        Raises:
            FileAccessError: it can't be opened, or isn't a regular file.
            PackageError: as `resolve`.
        """
        path = self.resolve(reference, base=base, must_exist=True)
        return os.fdopen(open_regular(path), "rb")

    def close(self) -> None:
        """End what looks at the disk; a second time does nothing."""
        self._closed.append(True)

    def _check_open(self) -> None:
        if self._closed:
            raise StateError("the package is closed")

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()
