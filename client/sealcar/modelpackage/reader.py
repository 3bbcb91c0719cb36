"""Opens a package: reads its JSON files, checks every rule of the format, and resolves every path.

Checked in this order: the root; the manifest is JSON and an object; its version; its fields;
components and variants in order of declaration, each with its paths; names and layout; shared
assets; executor_info files. So the first finding is the same that the native library reports.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from sealcar.modelpackage import shapes
from sealcar.modelpackage.assets import read_assets
from sealcar.modelpackage.errors import FileAccessError, MissingError, SchemaError
from sealcar.modelpackage.json_text import MAX_TEXT, Json, compact, parse
from sealcar.modelpackage.paths import Confinement, is_there
from sealcar.modelpackage.values import Component, ExecutorInfo, Package, Variant

if TYPE_CHECKING:
    import os
    from collections.abc import Mapping

MANIFEST = "manifest.json"
COMPONENT = "component.json"


@dataclass(frozen=True)
class Rules:
    """How strictly a package is read.

    Attributes:
        allow_external_paths: paths may lead out of the package, as in the layout `installed`.
        follow_symlinks: links in front of missing paths are resolved before they are judged.
        unknown_fields: accepted; they always are in packages of a newer minor version.
        unique_keys: refuse duplicate keys, and integers over 64 bits, which readers take
            differently.
    """

    allow_external_paths: bool = False
    follow_symlinks: bool = True
    unknown_fields: bool = False
    unique_keys: bool = False


def open_package(root: str | os.PathLike[str], rules: Rules | None = None) -> Package:
    """Read the package in a directory.

    Raises:
        PackageError: one of its kinds, with the JSON path of what is wrong.
    """
    path = Path(root)
    if not path.is_dir():
        raise FileAccessError(f"{str(path)!a} is not a directory")
    try:
        return _Reading(path.resolve(), rules or Rules()).package()
    except OSError as error:
        raise FileAccessError(f"can't be read: {error.strerror}", where=str(path)) from error


class _Reading:
    def __init__(self, root: Path, rules: Rules) -> None:
        self._root = root
        self._rules = rules
        self._strict = not rules.unknown_fields
        self._paths = Confinement(str(root), rules.allow_external_paths, rules.follow_symlinks)

    def package(self) -> Package:
        file = self._root / MANIFEST
        manifest = shapes.an_object(self._json(_read(file), str(file)), "$")
        version = shapes.schema_version(manifest)
        self._strict = self._strict and version.minor == shapes.MINOR
        self._known(manifest, shapes.MANIFEST, "$")
        if manifest.get("layout") == "installed":
            self._paths = replace(self._paths, external=True)
        components = [
            self._component(name, value, shapes.member("$.components", name))
            for name, value in shapes.required(manifest, "components", "$").items()
        ]
        name = shapes.text(manifest, "package_name", "$")
        number = shapes.text(manifest, "package_version", "$")
        description = shapes.text(manifest, "description", "$")
        layout = shapes.text(manifest, "layout", "$") or "portable"
        if manifest.get("layout", "portable") not in ("portable", "installed"):
            raise SchemaError("must be 'portable' or 'installed'", where="$.layout")
        assets = read_assets(manifest, self._paths, portable=layout == "portable")
        return Package(
            root=self._root,
            schema_version=version,
            name=name,
            version=number,
            description=description,
            layout=layout,
            components=tuple(self._with_files(component) for component in components),
            shared_assets=assets,
            manifest=manifest,
        )

    def _component(self, name: str, value: Json, where: str) -> Component:
        file = None
        if isinstance(value, str):
            file = self._component_file(value, where)
            where = f"{where} ({file})"
            body = shapes.an_object(self._json(_read(file), str(file)), where)
        elif isinstance(value, dict):
            body = value
        else:
            raise SchemaError("must be a path or an object", where=where)
        self._known(body, shapes.COMPONENT, where)
        shapes.text(body, "component_name", where)
        directory = self._root if file is None else file.parent
        variants = [
            self._variant(key, item, directory, shapes.member(f"{where}.variants", key))
            for key, item in shapes.required(body, "variants", where).items()
        ]
        return Component(name, directory, file, tuple(variants), body)

    def _component_file(self, text: str, where: str) -> Path:
        path = Path(self._paths.resolve(str(self._root), text, where))
        if not path.is_dir():
            return path
        inner = path / COMPONENT
        if not inner.exists():
            raise MissingError(f"{str(path)!a} has no {COMPONENT}", where=where)
        return inner

    def _variant(self, name: str, value: Json, base: Path, where: str) -> Variant:
        body = shapes.an_object(value, where)
        self._known(body, shapes.VARIANT, where)
        ep, device, compatibility = (
            shapes.text(body, key, where) for key in ("ep", "device", "compatibility_string")
        )
        infos = []
        for namespace, info in shapes.an_object(
            body.get("executor_info", {}), f"{where}.executor_info"
        ).items():
            if not isinstance(info, str | dict):
                place = shapes.member(f"{where}.executor_info", namespace)
                raise SchemaError("must be a path or an object", where=place)
            # a path can be followed only once all variants are known to be sound
            infos.append(ExecutorInfo(namespace, info, compact(info)))
        directory = self._variant_directory(name, body, base, where)
        return Variant(name, directory, ep, device, compatibility, tuple(infos), body)

    def _variant_directory(
        self, name: str, body: Mapping[str, Json], base: Path, where: str
    ) -> Path | None:
        declared = shapes.text(body, "variant_directory", where)
        if declared is not None:
            place = f"{where}.variant_directory"
            return Path(self._paths.resolve(str(base), declared, place))
        found = Path(self._paths.locate(str(base), name, where))
        return found if is_there(found) else None

    def _with_files(self, component: Component) -> Component:
        variants = []
        base = shapes.member("$.components", component.name) + ".variants"
        for variant in component.variants:
            where = shapes.member(base, variant.name)
            infos = [self._executor_info(variant, info, where) for info in variant.executor_info]
            variants.append(replace(variant, executor_info=tuple(infos)))
        return replace(component, variants=tuple(variants))

    def _executor_info(self, variant: Variant, info: ExecutorInfo, where: str) -> ExecutorInfo:
        if not isinstance(info.value, str):
            return info
        place = shapes.member(f"{where}.executor_info", info.namespace)
        if variant.directory is None:
            raise MissingError("a file, but the variant has no directory", where=place)
        file = Path(self._paths.resolve(str(variant.directory), info.value, place))
        raw = _read(file)
        value = self._json(raw, str(file))
        return ExecutorInfo(info.namespace, value, raw.decode(), file)

    def _json(self, raw: bytes, where: str) -> Json:
        return parse(raw, where, unique_keys=self._rules.unique_keys)

    def _known(self, body: Mapping[str, Json], known: frozenset[str], where: str) -> None:
        if self._strict:
            shapes.known_fields(body, known, where)


def _read(file: Path) -> bytes:
    try:
        if file.is_dir():
            raise SchemaError("invalid JSON: it is a directory", where=str(file))
        if file.exists() and not file.is_file():
            raise FileAccessError("is not a regular file", where=str(file))
        with file.open("rb") as stream:
            return stream.read(MAX_TEXT + 1)
    except OSError as error:
        raise FileAccessError(f"can't be read: {error.strerror}", where=str(file)) from error
