"""What is wrong with a generation, in the order in which its manifest has things."""

from __future__ import annotations

import codecs
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from sealcar import modelpackage
from sealcar.modelpackage.reader import read_package
from sealcar_server.sealing.canonical import pointer

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping
    from pathlib import Path

    from sealcar_server.sealing.strictjson import JsonValue

MOST: Final = 10_000
_STEP: Final = re.compile(r"\.?([\w-]+)|\[([\"'])(.*?)\2\]", re.ASCII)
# the first that fits
_CODES: Final[tuple[tuple[type[modelpackage.PackageError], str], ...]] = (
    (modelpackage.VersionError, "version"),
    (modelpackage.ConfinementError, "confinement"),
    (modelpackage.InvalidPathError, "confinement"),
    (modelpackage.AssetMissingError, "asset-missing"),
    (modelpackage.MissingError, "not-found"),
    (modelpackage.FileAccessError, "not-found"),
    (modelpackage.PackageError, "schema"),
)


@dataclass(frozen=True)
class Finding:
    """One thing that isn't as it should be.

    Attributes:
        code: which kind.
        place: JSON Pointer into the manifest, or a file's path in the generation.
        message: one sentence.
        is_error: refused when it is opened; else it is served all the same.
    """

    code: str
    place: str
    message: str
    is_error: bool = True


@dataclass(frozen=True)
class Validated:
    """What a look at the structure of one generation came to.

    Attributes:
        name, version, generation: what was looked at.
        findings: in the order of the manifest.
        verified: False: the daemon is locked, so the seal record itself couldn't be checked.
    """

    name: str
    version: str
    generation: int
    findings: tuple[Finding, ...]
    verified: bool


def format_findings(root: Path, data: bytes) -> Iterator[Finding]:
    """Check a package by the rules of the format, the content of its files left out.

    What doesn't open has one finding: there is nothing to look at behind it.

    Args:
        root: its directory.
        data: its manifest, which has everything inline: no other file is read.
    """
    checks = modelpackage.Check
    try:
        package = read_package(root, data, modelpackage.Rules(unknown_fields=True))
        found = modelpackage.validate(package, checks.SCHEMA | checks.PATHS | checks.UNKNOWN_FIELDS)
    except modelpackage.PackageError as error:
        code = next(code for kind, code in _CODES if isinstance(error, kind))
        yield Finding(code, _pointer(error.where, root), _relative(error.message, root))
        return
    codes = {checks.SCHEMA: "schema", checks.UNKNOWN_FIELDS: "unknown-field"}
    for item in found.findings:
        absent = "asset-missing" if item.where.startswith("shared_assets") else "not-found"
        yield Finding(
            codes.get(item.check, absent),
            _pointer(item.where, root),
            _relative(item.message, root),
            item.is_error,
        )


def in_order(findings: Iterable[Finding], manifest: Mapping[str, JsonValue]) -> list[Finding]:
    """Return them as the manifest has the places that they are about, each once; at most `MOST`."""
    ranks = {place: at for at, place in enumerate(_places(manifest))}

    def rank(finding: Finding) -> int:
        return next((ranks[each] for each in _around(finding.place) if each in ranks), -1)

    ordered = sorted(dict.fromkeys(findings), key=rank)
    if len(ordered) <= MOST:
        return ordered
    rest = ordered[MOST - 1 :]
    told = f"and {len(rest)} more findings"
    return [
        *ordered[: MOST - 1],
        Finding(rest[0].code, rest[0].place, told, any(each.is_error for each in rest)),
    ]


def _places(manifest: Mapping[str, JsonValue]) -> Iterator[str]:
    for field, value in manifest.items():
        yield pointer(field)
        if field != "components" or not isinstance(value, dict):
            continue
        for component, body in value.items():
            yield pointer(field, component)
            variants = body.get("variants") if isinstance(body, dict) else None
            if isinstance(variants, dict):
                for variant in variants:
                    yield pointer(field, component, "variants", variant)


def _around(place: str) -> Iterator[str]:
    """Return a place and those around it, nearest first, as pointers."""
    if not place.startswith("/"):
        component, _, rest = place.partition("/")
        place = pointer("components", component, "variants", *rest.split("/"))
    while place:
        yield place
        place = place.rpartition("/")[0]


def _pointer(where: str, root: Path) -> str:
    """Return a path such as `components.det['a b']` as a pointer; a file's path as it is."""
    if str(root) in where:
        return _relative(where.strip("'\""), root)
    steps, at = [], 0
    while match := _STEP.match(where, at):
        plain, _, quoted = match.groups()
        steps.append(plain or codecs.decode(quoted, "unicode_escape"))
        at = match.end()
    return pointer(*steps) if at == len(where) else where


def _relative(text: str, root: Path) -> str:
    # where the daemon keeps its store is nobody else's business
    return text.replace(f"{root}/", "").replace(str(root), ".")
