"""Ways to begin an edit."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING

from sealcar.modelpackage import leftovers, writing
from sealcar.modelpackage.editor import Editor
from sealcar.modelpackage.package import Package
from sealcar.modelpackage.pruning import prune
from sealcar.modelpackage.reader import (
    COMPONENTS,
    PORTABLE,
    new_version,
    open_package,
    read_manifest,
    read_package,
    real_root,
)
from sealcar.modelpackage.rules import Rules
from sealcar.modelpackage.schemas import STAMP

if TYPE_CHECKING:
    import os

    from sealcar.modelpackage.json_text import Json


def edit(root: str | os.PathLike[str], rules: Rules | None = None) -> Editor:
    """Begin to change a package; what a dead commit left over is finished first.

    Raises:
        StateError: somebody else is changing it.
        PackageError: it doesn't open.
    """
    rules = rules or Rules()
    path = real_root(root)
    with writing.locked(str(path)) as descriptor, writing.writes(str(path)):
        # what can't be finished now is whole all the same
        with suppress(OSError):
            leftovers.recover(descriptor, open_package(path, rules))
        raw = read_manifest(path, rules)
        return Editor(read_package(path, raw, rules), raw)


def new(rules: Rules | None = None) -> Editor:
    """Begin a package that is saved nowhere yet, and only when it is told to."""
    return Editor(_nothing(rules or Rules()))


def create(destination: str | os.PathLike[str], rules: Rules | None = None) -> Editor:
    """Begin a package that is saved to a new or empty directory when the `with` is left."""
    return Editor(_nothing(rules or Rules()), destination=destination)


def prune_package(root: str | os.PathLike[str], rules: Rules | None = None) -> None:
    """Delete what dead commits left over in a package's directory.

    Raises:
        StateError: somebody else is changing it.
        PackageError: it doesn't open, or something can't be deleted.
    """
    prune(real_root(root), rules or Rules())


def _nothing(rules: Rules) -> Package:
    manifest: dict[str, Json] = {"schema_version": STAMP, "layout": PORTABLE, COMPONENTS: {}}
    return Package(
        location=None,
        schema_version=new_version(STAMP),
        name=None,
        version=None,
        description=None,
        layout=PORTABLE,
        components={},
        shared_assets={},
        manifest=manifest,
        rules=rules,
    )
