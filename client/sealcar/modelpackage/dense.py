"""Moves components from files of their own into the manifest."""

from __future__ import annotations

import os
from dataclasses import replace
from enum import Enum
from typing import TYPE_CHECKING

from sealcar.modelpackage import shapes
from sealcar.modelpackage.edits import VARIANTS
from sealcar.modelpackage.errors import StateError
from sealcar.modelpackage.parts import DIRECTORY, EXECUTOR_INFO
from sealcar.modelpackage.paths import is_there, joined, normal
from sealcar.modelpackage.reader import COMPONENTS

if TYPE_CHECKING:
    from collections.abc import Mapping

    from sealcar.modelpackage.json_text import Json
    from sealcar.modelpackage.package import Package
    from sealcar.modelpackage.values import Component, Variant


class WriteMode(Enum):
    """Where components are written.

    Attributes:
        PRESERVE: where they were: in the manifest, or in files of their own.
        DENSE: all in the manifest.
    """

    PRESERVE = "preserve"
    DENSE = "dense"


def dense(package: Package) -> Package:
    """Return a package with all components in the manifest; their variants are where they were.

    Raises:
        StateError: an executor_info stands in a file, or a variant would get a directory that it
            doesn't have.
    """
    for component in package.components.values():
        for variant in component.variants.values():
            _check_inline(component.name, variant)
    if package.location is None:
        return package
    root = str(package.root)
    components = {name: _moved(item, root) for name, item in package.components.items()}
    listed: Json = {name: dict(item.body) for name, item in components.items()}
    return replace(
        package, components=components, manifest={**package.manifest, COMPONENTS: listed}
    )


def _check_inline(component: str, variant: Variant) -> None:
    infos = shapes.an_object(variant.body.get(EXECUTOR_INFO, {}), EXECUTOR_INFO)
    for namespace, info in infos.items():
        if isinstance(info, str):
            message = f"executor_info {namespace!a} stands in a file; only inline ones can be moved"
            raise StateError(message, where=_place(component, variant.name))


def _moved(component: Component, root: str) -> Component:
    if component.file is None:
        return component
    above = os.path.relpath(component.directory, root)
    variants = {
        name: replace(item, body=_with_directory(component.name, item, above, root))
        for name, item in component.variants.items()
    }
    bodies: Json = {name: dict(item.body) for name, item in variants.items()}
    return replace(
        component,
        directory=type(component.directory)(root),
        file=None,
        variants=variants,
        body={**component.body, VARIANTS: bodies},
    )


def _with_directory(component: str, variant: Variant, above: str, root: str) -> Mapping[str, Json]:
    if above == ".":
        return variant.body
    declared = variant.body.get(DIRECTORY)
    if not isinstance(declared, str) and variant.directory is None:
        if is_there(joined(root, variant.name)):
            message = f"the variant has no directory, and would get {variant.name!a} of the package"
            raise StateError(message, where=_place(component, variant.name))
        return variant.body
    text = declared if isinstance(declared, str) else variant.name
    return {**variant.body, DIRECTORY: text if text.startswith("/") else normal(f"{above}/{text}")}


def _place(component: str, variant: str) -> str:
    place = shapes.member(shapes.member(COMPONENTS, component), VARIANTS)
    return shapes.member(place, variant)
