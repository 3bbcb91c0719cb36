"""Opens a package: reads its JSON files, checks every rule of the format, and resolves every path.

Checked in this order: the root; the manifest is JSON and an object; its version; its fields;
components and variants in order of declaration, each with its paths; names and layout; shared
assets; executor_info files. So the first finding is the same that the native library reports.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Final

from sealcar.modelpackage import shapes
from sealcar.modelpackage.assets import read_assets
from sealcar.modelpackage.errors import (
    FileAccessError,
    LimitError,
    PackageError,
    SchemaError,
    StateError,
)
from sealcar.modelpackage.files import read_document
from sealcar.modelpackage.json_text import Json, parse
from sealcar.modelpackage.package import Package
from sealcar.modelpackage.parts import Parts
from sealcar.modelpackage.paths import Confinement
from sealcar.modelpackage.rules import Rules
from sealcar.modelpackage.schemas import NEWEST, STAMP, schema_of

if TYPE_CHECKING:
    from collections.abc import Mapping

    from sealcar.modelpackage.values import Component, SchemaVersion

MANIFEST: Final = "manifest.json"
COMPONENTS: Final = "components"
PORTABLE: Final = "portable"
INSTALLED: Final = "installed"
_TRIES: Final = 20


def open_package(root: str | os.PathLike[str], rules: Rules | None = None) -> Package:
    """Read the package in a directory.

    Raises:
        PackageError: one of its kinds, with the JSON path of what is wrong.
    """
    rules = rules or Rules()
    path = real_root(root)
    try:
        return _unchanged(path, rules)
    except (OSError, ValueError) as error:
        raise FileAccessError(f"can't be read: {error}", where=ascii(str(path))) from error


def real_root(root: str | os.PathLike[str]) -> Path:
    """Return the real path of a package's directory.

    Raises:
        FileAccessError: it is none.
    """
    path = Path(os.fsdecode(root))
    try:
        if path.is_dir():
            return path.resolve()
    except (OSError, ValueError) as error:
        raise FileAccessError(f"can't be read: {error}", where=ascii(str(path))) from error
    raise FileAccessError(f"{str(path)!a} is not a directory")


def _unchanged(path: Path, rules: Rules) -> Package:
    """Read a package while its manifest stays the same, so that its files fit together."""
    for _ in range(_TRIES):
        raw = read_manifest(path, rules)
        try:
            package = read_package(path, raw, rules)
        except PackageError:
            if read_manifest(path, rules) == raw:
                raise
        else:
            if read_manifest(path, rules) == raw:
                return package
    raise StateError("somebody is changing the package all the time", where=str(path))


def read_manifest(root: Path, rules: Rules) -> bytes:
    """Return the text of a package's manifest, which may be a link.

    Raises:
        FileAccessError: it can't be read.
        SchemaError: it is a directory.
    """
    limit = rules.limits.document_bytes
    return read_document(f"{root}/{MANIFEST}", limit, may_be_link=True)


def read_package(root: Path, raw: bytes, rules: Rules) -> Package:
    """Read a package whose manifest has been read.

    Raises:
        PackageError: one of its kinds, with the JSON path of what is wrong.
    """
    where = f"{root}/{MANIFEST}"
    parsed = parse(raw, where, unique_keys=rules.unique_keys, limits=rules.limits)
    written = shapes.an_object(parsed, where)
    version = shapes.schema_version(written, "schema_version")
    schema = schema_of(version, "schema_version")
    strict = not rules.unknown_fields and version.minor <= schema.minor
    if strict:
        shapes.known_fields(written, schema.manifest, "")
    manifest = schema.newest_manifest(written)
    external = rules.allow_external_paths or manifest.get("layout") == INSTALLED
    paths = Confinement(str(root), external, rules.follow_symlinks)
    parts = Parts(paths, rules, schema, strict=strict)
    components = _components(parts, manifest, rules)
    head = _head(manifest)
    if version.major != NEWEST:
        manifest = _newest(manifest, components)
    assets = read_assets(manifest, paths, portable=head["layout"] == PORTABLE)
    return Package(
        location=root,
        schema_version=version,
        name=head["package_name"],
        version=head["package_version"],
        description=head["description"],
        layout=head["layout"] or PORTABLE,
        components={
            name: parts.with_files(component, shapes.member(COMPONENTS, name))
            for name, component in components.items()
        },
        shared_assets=assets,
        manifest=manifest,
        rules=rules,
    )


def _components(parts: Parts, manifest: Mapping[str, Json], rules: Rules) -> dict[str, Component]:
    found = shapes.required(manifest, COMPONENTS, "")
    if len(found) > rules.limits.components:
        message = f"the package has over {rules.limits.components} components"
        raise LimitError(message, where=COMPONENTS)
    components = {}
    variants = 0
    for name, value in found.items():
        where = shapes.member(COMPONENTS, name)
        components[name] = parts.component(
            name, value, where, limit=rules.limits.variants - variants
        )
        variants += len(components[name].variants)
    return components


def _newest(manifest: Mapping[str, Json], components: Mapping[str, Component]) -> dict[str, Json]:
    listed = dict(shapes.required(manifest, COMPONENTS, ""))
    for name, component in components.items():
        if component.file is None:
            listed[name] = dict(component.body)
    return {**manifest, "schema_version": STAMP, COMPONENTS: listed}


def _head(manifest: Mapping[str, Json]) -> dict[str, str | None]:
    head = {
        key: shapes.text(manifest, key, "")
        for key in ("package_name", "package_version", "description")
    }
    layout = shapes.text(manifest, "layout", "")
    return head | {"layout": checked_layout(PORTABLE if layout is None else layout)}


def checked_layout(layout: str) -> str:
    """Return a layout if it is one.

    Raises:
        SchemaError: it isn't.
    """
    if layout not in (PORTABLE, INSTALLED):
        raise SchemaError(f"must be {PORTABLE!r} or {INSTALLED!r}", where="layout")
    return layout


def new_version(written: str) -> SchemaVersion:
    """Return the version that a new package says it has."""
    return shapes.schema_version({"schema_version": written}, "schema_version")
