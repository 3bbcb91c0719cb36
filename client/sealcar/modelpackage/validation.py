"""Looks for everything that is wrong with a package, rather than for the first thing."""

from __future__ import annotations

import os
from dataclasses import dataclass
from enum import Flag, auto
from typing import TYPE_CHECKING

from sealcar.modelpackage import shapes
from sealcar.modelpackage.assets import KEY
from sealcar.modelpackage.errors import PackageError, StateError
from sealcar.modelpackage.hashing import hash_directory
from sealcar.modelpackage.package import Package
from sealcar.modelpackage.parts import Parts
from sealcar.modelpackage.paths import is_there
from sealcar.modelpackage.reader import COMPONENTS, open_package
from sealcar.modelpackage.rules import Rules
from sealcar.modelpackage.schemas import NEWEST, SUPPORTED

if TYPE_CHECKING:
    from collections.abc import Iterator

    from sealcar.modelpackage.hashing import Progress
    from sealcar.modelpackage.json_text import Json


class Check(Flag):
    """What to look at.

    Attributes:
        SCHEMA: every component is read again, strictly. Findings are errors.
        PATHS: files of components and directories of assets exist. Warnings.
        ASSET_REHASH: the content of assets is what their URIs say. Errors.
        UNKNOWN_FIELDS: the manifest has no others than the format. Warnings.
        ALL: everything.
    """

    SCHEMA = auto()
    PATHS = auto()
    ASSET_REHASH = auto()
    UNKNOWN_FIELDS = auto()
    ALL = SCHEMA | PATHS | ASSET_REHASH | UNKNOWN_FIELDS


_ERRORS = Check.SCHEMA | Check.ASSET_REHASH


@dataclass(frozen=True)
class Finding:
    """One thing that is wrong.

    Attributes:
        check: that found it.
        message: what is wrong, in one sentence.
        where: JSON path.
    """

    check: Check
    message: str
    where: str

    @property
    def is_error(self) -> bool:
        """Whether the package is damaged; else it is only odd."""
        return bool(self.check & _ERRORS)


@dataclass(frozen=True)
class Report:
    """Everything that was found.

    Attributes:
        findings: in the order of the checks.
    """

    findings: tuple[Finding, ...]

    @property
    def errors(self) -> tuple[Finding, ...]:
        """What makes the package unusable."""
        return tuple(item for item in self.findings if item.is_error)

    @property
    def warnings(self) -> tuple[Finding, ...]:
        """What doesn't."""
        return tuple(item for item in self.findings if not item.is_error)

    def as_json(self) -> dict[str, Json]:
        """Return the report in the native library's form."""
        return {"errors": _listed(self.errors), "warnings": _listed(self.warnings)}

    def raise_for_errors(self) -> None:
        """Refuse the package if there are errors.

        Raises:
            StateError: there are.
        """
        if self.errors:
            first = self.errors[0]
            message = f"{len(self.errors)} errors, the first: {first.message}"
            raise StateError(message, where=first.where)


def _listed(findings: tuple[Finding, ...]) -> list[Json]:
    return [
        {"code": str(item.check.name), "message": f"{item.where}: {item.message}"}
        for item in findings
    ]


def validate(
    package: Package | str | os.PathLike[str],
    checks: Check = Check.ALL,
    *,
    progress: Progress | None = None,
) -> Report:
    """Look for everything that is wrong with a package that opens.

    Args:
        package: an open one, or a directory; that is opened with unknown fields accepted.
        checks: what to look at.
        progress: told how far the hash of each asset is.

    Raises:
        PackageError: it doesn't open.
    """
    if not isinstance(package, Package):
        package = open_package(package, Rules(unknown_fields=True))
    findings: list[Finding] = []
    if Check.SCHEMA in checks:
        findings += _schema(package)
    if Check.PATHS in checks:
        findings += _paths(package)
    if Check.ASSET_REHASH in checks:
        findings += _assets(package, progress)
    if Check.UNKNOWN_FIELDS in checks:
        findings += _unknown(package)
    return Report(tuple(findings))


def _schema(package: Package) -> Iterator[Finding]:
    parts = Parts(package.paths, package.rules, SUPPORTED[NEWEST], strict=True)
    limit = package.rules.limits.variants
    for name, component in package.components.items():
        where = shapes.member(COMPONENTS, name)
        try:
            parts.body(name, dict(component.body), where, file=component.file, limit=limit)
        except PackageError as error:
            yield Finding(Check.SCHEMA, error.message, error.where)


def _paths(package: Package) -> Iterator[Finding]:
    for name, component in package.components.items():
        if component.file and not is_there(component.file):
            message = f"{str(component.file)!a} does not exist"
            yield Finding(Check.PATHS, message, shapes.member(COMPONENTS, name))
    for uri, asset in package.shared_assets.items():
        if not os.path.isdir(asset.path):  # noqa: PTH112  (paths are text here)
            message = f"{asset.path!a} is not a directory"
            yield Finding(Check.PATHS, message, shapes.member(KEY, uri))


def _assets(package: Package, progress: Progress | None) -> Iterator[Finding]:
    for uri, asset in package.shared_assets.items():
        if not is_there(asset.path):
            continue
        where = shapes.member(KEY, uri)
        try:
            found = hash_directory(asset.path, progress=progress, limits=package.rules.limits)
        except PackageError as error:
            yield Finding(Check.ASSET_REHASH, str(error), where)
        else:
            if found != uri:
                yield Finding(Check.ASSET_REHASH, f"the content has the hash {found}", where)


def _unknown(package: Package) -> Iterator[Finding]:
    for key in package.manifest:
        if key not in SUPPORTED[NEWEST].manifest:
            yield Finding(Check.UNKNOWN_FIELDS, "unknown field", shapes.member("", key))
