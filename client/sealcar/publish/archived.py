"""Reads a model package out of an archive: its JSON files only, into memory."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import TYPE_CHECKING, Final

from sealcar.errors import InvalidPackageError
from sealcar.modelpackage.assets import DIRECTORY as ASSETS
from sealcar.modelpackage.assets import FOLDER
from sealcar.modelpackage.json_text import parse
from sealcar.modelpackage.parts import COMPONENT, DIRECTORY, EXECUTOR_INFO
from sealcar.modelpackage.paths import Confinement
from sealcar.modelpackage.reader import COMPONENTS, MANIFEST, read_package
from sealcar.modelpackage.values import SharedAsset
from sealcar.names import shown
from sealcar.publish.archives import ArchiveTree

if TYPE_CHECKING:
    from pathlib import Path

    from sealcar.modelpackage import Json, Package, Rules, Variant
    from sealcar.publish.archives import Archive

_VARIANTS: Final = "variants"


class ArchivedPackage:
    """A package as it lies in an archive.

    Args:
        archive: its index.
        location: real path of the archive, which stands for the package's directory.
        rules: under which the package is read.

    Raises:
        PackageError, InvalidPackageError: it is no package, or breaks a rule.
        StorageError: the archive can't be read.

    Attributes:
        package: its paths lie below `location`.
    """

    def __init__(self, archive: Archive, location: Path, rules: Rules) -> None:
        self._archive = archive
        self._location = location
        self._rules = rules
        self._paths = Confinement(str(location))
        self._top = self._find_top()
        # found while the manifest is put together, by component and variant
        self._directories: dict[tuple[str, str], str] = {}
        self._info_files: dict[tuple[str, str, str], str] = {}
        inlined = self._manifest(self._document(MANIFEST))
        package = read_package(location, json.dumps(inlined).encode(), rules)
        self.package = self._with_files(package)

    def tree(self, directory: Path) -> ArchiveTree:
        """Return a directory of the package.

        Raises:
            InvalidPackageError: there is none.
        """
        name = directory.relative_to(self._location).as_posix()
        name = "" if name == "." else name
        if not self._archive.is_folder(self._inner(name)):
            raise InvalidPackageError(f"{shown(name)} is no directory of the archive")
        return ArchiveTree(self._archive, self._inner(name))

    def _find_top(self) -> str:
        if self._archive.is_file(MANIFEST):
            return ""
        tops = self._archive.tops()
        if len(tops) == 1 and self._archive.is_file(f"{min(tops)}/{MANIFEST}"):
            return min(tops)
        raise InvalidPackageError(
            f"the archive has no {MANIFEST}, neither at its top nor in the one directory there"
        )

    def _inner(self, name: str) -> str:
        return "/".join(part for part in (self._top, name) if part)

    def _document(self, name: str) -> Json:
        limits = self._rules.limits
        file = self._archive.open(self._inner(name), name)
        raw = file.read(limits.document_bytes + 1)
        return parse(raw, name, unique_keys=self._rules.unique_keys, limits=limits)

    def _located(self, base: str, text: str, where: str) -> str:
        """Return where a path of the package leads in the archive."""
        above = f"{self._location}/{base}"
        path = self._paths.locate(above.rstrip("/"), text, where)
        return path.removeprefix(str(self._location)).strip("/")

    # What is malformed stays as it is: the package's reader says what is wrong, and where.

    def _manifest(self, value: Json) -> Json:
        components = value.get(COMPONENTS) if isinstance(value, dict) else None
        if not isinstance(value, dict) or not isinstance(components, dict):
            return value
        inlined: Json = {name: self._component(name, body) for name, body in components.items()}
        return {**value, COMPONENTS: inlined}

    def _component(self, name: str, value: Json) -> Json:
        base = ""
        if isinstance(value, str):
            file = self._located("", value, f"{COMPONENTS}.{name}")
            if self._archive.is_folder(self._inner(file)):
                file = f"{file}/{COMPONENT}" if file else COMPONENT
            base = file.rpartition("/")[0]
            value = self._document(file)
        variants = value.get(_VARIANTS) if isinstance(value, dict) else None
        if not isinstance(value, dict) or not isinstance(variants, dict):
            return value
        inlined: Json = {
            key: self._variant((name, key), body, base) for key, body in variants.items()
        }
        return {**value, _VARIANTS: inlined}

    def _variant(self, scope: tuple[str, str], value: Json, base: str) -> Json:
        if not isinstance(value, dict):
            return value
        body = dict(value)
        where = f"{scope[0]}.{scope[1]}"
        declared = body.get(DIRECTORY, scope[1])
        if isinstance(declared, str):
            directory = self._located(base, declared, where)
            if self._archive.is_folder(self._inner(directory)):
                self._directories[scope] = directory
            elif DIRECTORY in body:
                raise InvalidPackageError(f"{where}: {shown(declared)} does not exist")
            body.pop(DIRECTORY, None)
        infos = body.get(EXECUTOR_INFO)
        if isinstance(infos, dict):
            body[EXECUTOR_INFO] = {
                space: self._info((*scope, space), info) for space, info in infos.items()
            }
        return body

    def _info(self, place: tuple[str, str, str], value: Json) -> Json:
        if not isinstance(value, str):
            return value
        directory = self._directories.get(place[:2])
        if directory is None:
            raise InvalidPackageError(
                f"{'.'.join(place)}: a file, but the variant has no directory"
            )
        file = self._located(directory, value, ".".join(place))
        self._info_files[place] = file
        return self._document(file)

    def _with_files(self, package: Package) -> Package:
        """Return the package with the paths that its reader couldn't find on a disk."""
        components = {
            name: replace(
                component,
                variants={
                    key: self._placed(name, variant) for key, variant in component.variants.items()
                },
            )
            for name, component in package.components.items()
        }
        assets = dict(package.shared_assets)
        for folder in self._archive.folders(self._inner(ASSETS)):
            if FOLDER.fullmatch(folder):
                uri = folder.replace("-", ":", 1)
                assets.setdefault(uri, SharedAsset(uri, f"{self._location}/{ASSETS}/{folder}"))
        return replace(package, components=components, shared_assets=assets)

    def _placed(self, component: str, variant: Variant) -> Variant:
        directory = self._directories.get((component, variant.name))
        infos = {
            space: replace(info, file=self._location / self._info_files[place])
            if (place := (component, variant.name, space)) in self._info_files
            else info
            for space, info in variant.executor_info.items()
        }
        where = None if directory is None else self._location / directory
        return replace(variant, directory=where, executor_info=infos)
