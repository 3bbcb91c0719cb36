"""Reads the parts of a package: components, their variants, and what executors are told."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Final

from sealcar.modelpackage import shapes
from sealcar.modelpackage.errors import (
    ConfinementError,
    FileAccessError,
    InvalidPathError,
    LimitError,
    MissingError,
    PackageError,
    SchemaError,
)
from sealcar.modelpackage.files import read_document
from sealcar.modelpackage.json_text import Json, compact, parse
from sealcar.modelpackage.paths import is_there
from sealcar.modelpackage.values import Component, ExecutorInfo, Variant

if TYPE_CHECKING:
    from collections.abc import Mapping

    from sealcar.modelpackage.paths import Confinement
    from sealcar.modelpackage.rules import Rules
    from sealcar.modelpackage.schemas import Schema

COMPONENT: Final = "component.json"
EXECUTOR_INFO: Final = "executor_info"
DIRECTORY: Final = "variant_directory"


class Parts:
    """The reader of parts, under the rules that the head of the manifest settled.

    Args:
        paths: the rules that paths obey.
        rules: how strictly it is read.
        schema: of the package's version.
        strict: unknown fields are refused.
    """

    def __init__(self, paths: Confinement, rules: Rules, schema: Schema, *, strict: bool) -> None:
        self._paths = paths
        self._rules = rules
        self._schema = schema
        self._strict = strict

    def component(self, name: str, value: Json, where: str, *, limit: int) -> Component:
        """Read a component, which stands in the manifest or in a file of its own.

        Raises:
            PackageError: one of its kinds.
        """
        if isinstance(value, str):
            file, inner = self.component_file(value, where)
            body = self.document(str(file), may_be_link=inner)
            try:
                return self.body(name, body, where, file=file, limit=limit)
            except PackageError as error:
                message = f"{error.message} (in {str(file)!a})"
                raise type(error)(message, where=error.where) from error
        if isinstance(value, dict):
            return self.body(name, value, where, file=None, limit=limit)
        raise SchemaError("must be a path or an object", where=where)

    def component_file(self, text: str, where: str) -> tuple[Path, bool]:
        """Return the file that a component's path means, and if it is in a directory named so.

        Raises:
            MissingError: it isn't there.
            ConfinementError, InvalidPathError: it may not be used.
        """
        path = Path(self._paths.resolve(self._paths.root, text, where))
        if not path.is_dir():
            return path, False
        inner = path / COMPONENT
        if not inner.exists():
            raise MissingError(f"{str(path)!a} has no {COMPONENT}", where=where)
        return inner, True

    def body(
        self, name: str, value: Json, where: str, *, file: Path | None, limit: int
    ) -> Component:
        """Read the body of a component.

        Raises:
            PackageError: one of its kinds.
        """
        written = shapes.an_object(value, where)
        self._known(written, self._schema.component, where)
        body = self._schema.newest_component(written)
        shapes.text(body, "component_name", where)
        directory = str(file.parent) if file else self._paths.root
        found = shapes.required(body, "variants", where)
        place = shapes.member(where, "variants")
        if len(found) > limit:
            raise LimitError("the package has too many variants", where=place)
        variants = {
            key: self.variant(key, item, directory, shapes.member(place, key))
            for key, item in found.items()
        }
        bodies: Json = {key: dict(item.body) for key, item in variants.items()}
        return Component(name, Path(directory), file, variants, {**body, "variants": bodies})

    def variant(self, name: str, value: Json, base: str, where: str) -> Variant:
        """Read a variant, but no file of it.

        Raises:
            PackageError: one of its kinds.
        """
        written = shapes.an_object(value, where)
        self._known(written, self._schema.variant, where)
        body = self._schema.newest_variant(written)
        ep, device, compatibility = (
            shapes.text(body, key, where) for key in ("ep", "device", "compatibility_string")
        )
        place = shapes.member(where, EXECUTOR_INFO)
        infos = {}
        for namespace, info in shapes.an_object(body.get(EXECUTOR_INFO, {}), place).items():
            if not isinstance(info, str | dict):
                inner = shapes.member(place, namespace)
                raise SchemaError("must be a path or an object", where=inner)
            # a path can be followed only once all variants are known to be sound
            infos[namespace] = ExecutorInfo(namespace, info, compact(info))
        directory = self._directory(name, body, base, where)
        return Variant(name, directory, ep, device, compatibility, infos, body)

    def with_files(self, component: Component, where: str, *, lenient: bool = False) -> Component:
        """Return a component with the executor_info files of its variants read.

        Args:
            component: as `component` or `body` returned it.
            where: its place.
            lenient: a file that can't be read yet counts as empty.

        Raises:
            PackageError: one of its kinds.
        """
        place = shapes.member(where, "variants")
        variants = {
            name: self.with_info(variant, shapes.member(place, name), lenient=lenient)
            for name, variant in component.variants.items()
        }
        return replace(component, variants=variants)

    def with_info(self, variant: Variant, where: str, *, lenient: bool = False) -> Variant:
        """Return a variant with its executor_info files read, as `with_files` does.

        Raises:
            PackageError: one of its kinds.
        """
        if not variant.executor_info:
            return variant
        place = shapes.member(where, EXECUTOR_INFO)
        infos = {
            namespace: self._info(variant, info, shapes.member(place, namespace), lenient=lenient)
            for namespace, info in variant.executor_info.items()
        }
        return replace(variant, executor_info=infos)

    def _directory(self, name: str, body: Mapping[str, Json], base: str, where: str) -> Path | None:
        declared = shapes.text(body, DIRECTORY, where)
        if declared is not None:
            return Path(self._paths.resolve(base, declared, shapes.member(where, DIRECTORY)))
        found = self._paths.locate(base, name, where)
        return Path(found) if is_there(found) else None

    def _info(
        self, variant: Variant, info: ExecutorInfo, where: str, *, lenient: bool
    ) -> ExecutorInfo:
        # one that was read already is read again: its path stands in the body
        value = shapes.an_object(variant.body[EXECUTOR_INFO], where)[info.namespace]
        if not isinstance(value, str):
            return info
        try:
            return self._info_file(variant, ExecutorInfo(info.namespace, value, ""), where)
        except (MissingError, ConfinementError, InvalidPathError, FileAccessError):
            if lenient:
                return ExecutorInfo(info.namespace, value, "")
            raise

    def _info_file(self, variant: Variant, info: ExecutorInfo, where: str) -> ExecutorInfo:
        if variant.directory is None:
            raise MissingError("a file, but the variant has no directory", where=where)
        file = self._paths.resolve(str(variant.directory), str(info.value), where)
        raw = read_document(file, self._rules.limits.document_bytes)
        return ExecutorInfo(info.namespace, self._parsed(raw, file), raw.decode(), Path(file))

    def document(self, file: str, *, may_be_link: bool) -> Json:
        """Read a JSON file of the package.

        Raises:
            FileAccessError: it can't be read.
            SchemaError: it is no JSON.
        """
        limit = self._rules.limits.document_bytes
        return self._parsed(read_document(file, limit, may_be_link=may_be_link), file)

    def _parsed(self, raw: bytes, where: str) -> Json:
        unique = self._rules.unique_keys
        return parse(raw, where, unique_keys=unique, limits=self._rules.limits)

    def _known(self, body: Mapping[str, Json], known: frozenset[str], where: str) -> None:
        if self._strict:
            shapes.known_fields(body, known, where)
