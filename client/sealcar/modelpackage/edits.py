"""Single changes of a package, each as a new value: one that fails has changed nothing."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Final

from sealcar.modelpackage import shapes
from sealcar.modelpackage.errors import MissingError, SchemaError
from sealcar.modelpackage.json_text import Json, checked
from sealcar.modelpackage.parts import COMPONENT, EXECUTOR_INFO, Parts
from sealcar.modelpackage.paths import is_there
from sealcar.modelpackage.reader import COMPONENTS, checked_layout
from sealcar.modelpackage.schemas import NEWEST, SUPPORTED

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from sealcar.modelpackage.package import Package
    from sealcar.modelpackage.values import Component, Variant

METADATA: Final = "additional_metadata"
VARIANTS: Final = "variants"


def parts_of(package: Package) -> Parts:
    """Return the reader of parts of a package that is being edited."""
    schema = SUPPORTED[NEWEST]
    rules = package.rules
    newer = package.schema_version.major == NEWEST and package.schema_version.minor > schema.minor
    return Parts(package.paths, rules, schema, strict=not rules.unknown_fields and not newer)


def with_head(
    package: Package, name: str | None, version: str | None, description: str | None
) -> Package:
    """Set name, version and description; None leaves one, nothing in it removes it."""
    manifest = dict(package.manifest)
    texts = {"package_name": name, "package_version": version, "description": description}
    for key, text in texts.items():
        if text:
            manifest[key] = checked(text, key)
        elif text is not None:
            manifest.pop(key, None)
    return replace(
        package,
        manifest=manifest,
        name=shapes.text(manifest, "package_name", ""),
        version=shapes.text(manifest, "package_version", ""),
        description=shapes.text(manifest, "description", ""),
    )


def with_layout(package: Package, layout: str) -> Package:
    """Set the layout; paths are judged by it from now on, and all again by a commit."""
    checked_layout(layout)
    return replace(package, manifest={**package.manifest, "layout": layout}, layout=layout)


def with_component(package: Package, name: str, body: object) -> Package:
    """Set a whole component that stands in the manifest."""
    where = shapes.member(COMPONENTS, name)
    value = checked(body, where)
    parts = parts_of(package)
    limit = package.rules.limits.variants
    component = parts.body(name, value, where, file=None, limit=limit)
    return _placed(package, parts.with_files(component, where, lenient=True))


def with_component_file(package: Package, name: str, path: str) -> Package:
    """Set a component that stands in a file; one that isn't there starts without variants.

    Raises:
        StateError: the package has never been saved.
    """
    where = shapes.member(COMPONENTS, name)
    root = str(package.root)
    parts = parts_of(package)
    file = Path(package.paths.locate(root, path, where))
    inner = os.path.isdir(file)  # noqa: PTH112  (says no to what can't be looked at)
    if inner:
        file /= COMPONENT
    body: Json = {VARIANTS: {}}
    if is_there(file):
        body = parts.document(str(file), may_be_link=inner)
    component = parts.body(name, body, where, file=file, limit=package.rules.limits.variants)
    return _placed(package, parts.with_files(component, where, lenient=True), path)


def without_component(package: Package, name: str) -> Package:
    """Remove a component from the manifest, if it is there."""
    components = {key: value for key, value in package.components.items() if key != name}
    listed = shapes.required(package.manifest, COMPONENTS, "")
    kept = {key: value for key, value in listed.items() if key != name}
    return replace(package, components=components, manifest={**package.manifest, COMPONENTS: kept})


def with_variant(package: Package, component: str, variant: str, body: object) -> Package:
    """Set a whole variant."""
    found = component_of(package, component)
    where = _variant_place(component, variant)
    value = checked(body, where)
    parts = parts_of(package)
    made = parts.variant(variant, value, str(found.directory), where)
    return _with_variant(package, found, parts.with_info(made, where, lenient=True))


def without_variant(package: Package, component: str, variant: str) -> Package:
    """Remove a variant, if it is there."""
    found = package.components.get(component)
    if found is None or variant not in found.variants:
        return package
    kept = {name: item for name, item in found.variants.items() if name != variant}
    bodies: Json = {name: dict(item.body) for name, item in kept.items()}
    changed = replace(found, variants=kept, body={**found.body, VARIANTS: bodies})
    return _placed(package, changed)


def with_metadata(
    package: Package, value: object, component: str | None, variant: str | None
) -> Package:
    """Set the additional metadata of the package, a component or a variant."""
    made = checked(value, METADATA)
    return _with_field(package, component, variant, lambda body: {**body, METADATA: made})


def without_metadata(package: Package, component: str | None, variant: str | None) -> Package:
    """Remove the additional metadata of the package, a component or a variant."""

    def cleared(body: Mapping[str, Json]) -> dict[str, Json]:
        return {key: value for key, value in body.items() if key != METADATA}

    return _with_field(package, component, variant, cleared)


def with_info(
    package: Package, component: str, variant: str, namespace: str, value: object
) -> Package:
    """Set what an executor is told, an object or the path of a file."""
    place = shapes.member(_variant_place(component, variant), EXECUTOR_INFO)
    where = shapes.member(place, namespace)
    made = value if isinstance(value, str) else shapes.an_object(checked(value, where), where)
    body = variant_of(package, component, variant).body
    infos = shapes.an_object(body.get(EXECUTOR_INFO, {}), where)
    return with_variant(
        package, component, variant, {**body, EXECUTOR_INFO: {**infos, namespace: made}}
    )


def without_info(package: Package, component: str, variant: str, namespace: str) -> Package:
    """Remove what an executor is told, if it is told anything."""
    body = dict(variant_of(package, component, variant).body)
    infos = shapes.an_object(body.get(EXECUTOR_INFO, {}), EXECUTOR_INFO)
    if namespace not in infos:
        return package
    kept = {key: value for key, value in infos.items() if key != namespace}
    if kept:
        body[EXECUTOR_INFO] = kept
    else:
        del body[EXECUTOR_INFO]
    return with_variant(package, component, variant, body)


def component_of(package: Package, name: str) -> Component:
    """Return a component.

    Raises:
        MissingError: there is none of that name.
    """
    found = package.components.get(name)
    if found is None:
        raise MissingError("there is no such component", where=shapes.member(COMPONENTS, name))
    return found


def variant_of(package: Package, component: str, name: str) -> Variant:
    """Return a variant.

    Raises:
        MissingError: there is none of that name.
    """
    found = component_of(package, component).variants.get(name)
    if found is None:
        raise MissingError("there is no such variant", where=_variant_place(component, name))
    return found


def _with_field(
    package: Package,
    component: str | None,
    variant: str | None,
    change: Callable[[Mapping[str, Json]], dict[str, Json]],
) -> Package:
    if component is None:
        if variant is not None:
            raise SchemaError("a variant needs the name of its component", where=METADATA)
        return replace(package, manifest=change(package.manifest))
    found = component_of(package, component)
    if variant is not None:
        item = variant_of(package, component, variant)
        return _with_variant(package, found, replace(item, body=change(item.body)))
    changed = replace(found, body=change(found.body))
    return _placed(package, changed)


def _variant_place(component: str, variant: str) -> str:
    place = shapes.member(shapes.member(COMPONENTS, component), VARIANTS)
    return shapes.member(place, variant)


def _with_variant(package: Package, component: Component, variant: Variant) -> Package:
    bodies = shapes.required(component.body, VARIANTS, component.name)
    changed = replace(
        component,
        variants={**component.variants, variant.name: variant},
        body={**component.body, VARIANTS: {**bodies, variant.name: dict(variant.body)}},
    )
    return _placed(package, changed)


def _placed(package: Package, component: Component, path: str | None = None) -> Package:
    listed = shapes.required(package.manifest, COMPONENTS, "")
    value: Json = dict(component.body)
    if component.file:
        value = listed[component.name] if path is None else path
    return replace(
        package,
        components={**package.components, component.name: component},
        manifest={**package.manifest, COMPONENTS: {**listed, component.name: value}},
    )
