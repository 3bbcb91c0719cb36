"""The manifest that goes to the daemon: all inline, every variant in `<component>/<variant>`."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Final

from sealcar.errors import InvalidPackageError
from sealcar.names import shown

if TYPE_CHECKING:
    from sealcar.modelpackage import Component, ExecutorInfo, Json, Package, Variant

# a message to the daemon has 4 MiB
MAX_MANIFEST: Final = (4 << 20) - (64 << 10)
_VERSION: Final = "1.0"
# what sealing adds to a package
_SEALED: Final = "sealcar"


def checked_size(manifest: str) -> str:
    """Return a manifest that can be sent.

    Raises:
        InvalidPackageError: it is too large.
    """
    if len(manifest.encode()) > MAX_MANIFEST:
        raise InvalidPackageError(
            f"the manifest has over {MAX_MANIFEST} bytes with all its files inline: too many"
        )
    return manifest


def for_model(name: str, version: str, scope: tuple[str, str], file: str) -> str:
    """Return the manifest of a package that is one model file."""
    component, variant = scope
    body = {
        "variant_directory": f"{component}/{variant}",
        "executor_info": {"ort": {"model_file": file}},
    }
    head = {"package_name": name} | ({"package_version": version} if version else {})
    return _text(head, {component: {"variants": {variant: body}}})


def inlined(package: Package) -> str:
    """Return a package's manifest with all its files inline."""
    head: dict[str, Json] = {
        key: package.manifest[key]
        for key in ("package_name", "package_version", "description", "additional_metadata")
        if key in package.manifest
    }
    return _text(head, {item.name: _component(item) for item in package.components.values()})


def check(package: Package) -> None:
    """Check that a package is one that can be sealed.

    Raises:
        InvalidPackageError: it uses what isn't supported, or is sealed already.
    """
    if package.schema_version.minor:
        raise InvalidPackageError(
            "schema_version: a newer minor version than 1.0 isn't supported, since it may have "
            "fields that nobody here understands; update sealcar"
        )
    if package.layout != "portable":
        raise InvalidPackageError(
            "layout: only portable packages can be imported, since the files of an installed one "
            "may lie anywhere; save it to a new place as a portable one"
        )
    metadata = package.manifest.get("additional_metadata")
    if isinstance(metadata, dict) and _SEALED in metadata:
        raise InvalidPackageError("the package is sealed already")
    _check_twins("component", list(package.components))
    for component in package.components.values():
        # the format lets this one file be a link out of the package
        if component.file is not None and component.file.is_symlink():
            raise InvalidPackageError(f"component {shown(component.name)}: its file is a link")
        _check_twins("variant", list(component.variants))
        for variant in component.variants.values():
            for info in variant.executor_info.values():
                try:
                    _check_info(info)
                except InvalidPackageError as error:
                    raise error.at(component=component.name, variant=variant.name) from None


def _check_info(info: ExecutorInfo) -> None:
    where = f"executor_info[{shown(info.namespace)}]"
    if info.namespace == _SEALED:
        raise InvalidPackageError(f"{where}: the variant is sealed already")
    if not isinstance(info.value, dict):
        raise InvalidPackageError(f"{where}: its file must hold an object")


def _check_twins(what: str, found: list[str]) -> None:
    folded: dict[str, str] = {}
    for name in found:
        twin = folded.setdefault(name.casefold(), name)
        if twin != name:
            raise InvalidPackageError(f"{what} {shown(name)}: only case sets {shown(twin)} apart")


def _component(component: Component) -> dict[str, Json]:
    variants: dict[str, Json] = {
        item.name: _variant(component.name, item) for item in component.variants.values()
    }
    return {**component.body, "variants": variants}


def _variant(component: str, variant: Variant) -> dict[str, Json]:
    body: dict[str, Json] = {**variant.body, "variant_directory": f"{component}/{variant.name}"}
    if variant.executor_info:
        body["executor_info"] = {
            info.namespace: info.value for info in variant.executor_info.values()
        }
    return body


def _text(head: dict[str, Json] | dict[str, str], components: object) -> str:
    manifest = {"schema_version": _VERSION, **head, "layout": "portable", "components": components}
    return checked_size(json.dumps(manifest, ensure_ascii=False, separators=(",", ":")))
