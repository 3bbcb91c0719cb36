"""Checks the manifest of an import: ORT's model package format, written inline.

What this release doesn't know is refused, because the seal record could not vouch for it.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from sealcar.errors import InvalidPackageError, SealcarError
from sealcar.names import shown
from sealcar_server.sealing.canonical import pointer
from sealcar_server.sealing.strictjson import strict_json
from sealcar_server.service import naming, references
from sealcar_server.service.composing import NAMESPACE, sealed_body

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from sealcar_server.sealing.strictjson import JsonValue

MAX_MANIFEST: Final = 3 << 20  # fits into a message of gRPC, which takes 4 MiB
MAX_VARIANTS: Final = 4096
_SCHEMA: Final = re.compile(r"0*1(\.0+)?")
_TEXTS: Final = ("package_name", "package_version", "description")
_PACKAGE: Final = frozenset(
    {"schema_version", "components", "layout", "shared_assets", "additional_metadata", *_TEXTS}
)
_COMPONENT: Final = frozenset({"variants", "component_name", "additional_metadata"})
_VARIANT_TEXTS: Final = ("variant_directory", "ep", "device", "compatibility_string")
_VARIANT: Final = frozenset({"executor_info", "additional_metadata", *_VARIANT_TEXTS})

Object = dict[str, "JsonValue"]


def prepare(text: str) -> Object:
    """Return the manifest as it will be sealed: its variants in their places, and marked.

    Raises:
        InvalidPackageError: it breaks a rule; the message has the JSON Pointer.
    """
    if len(text.encode(errors="replace")) > MAX_MANIFEST:
        raise InvalidPackageError("manifest: over 3 MiB")
    return checked(_object(strict_json(text)))


def checked(root: Object) -> Object:
    """Return a parsed manifest as it will be sealed; raises as `prepare`."""
    _known(root, _PACKAGE)
    _check_package(root)
    components = _object(root.get("components"), "components")
    prepared: Object = {name: _component(name, body) for name, body in components.items()}
    if sum(len(_object(_object(body)["variants"])) for body in prepared.values()) > MAX_VARIANTS:
        raise InvalidPackageError(f"manifest: over {MAX_VARIANTS} variants")
    return {**root, "components": prepared}


def scopes(manifest: Object) -> list[tuple[str, str]]:
    """Return every (component, variant) of a prepared manifest, in its order."""
    components = _object(manifest["components"])
    return [
        (component, variant)
        for component, body in components.items()
        for variant in _object(_object(body)["variants"])
    ]


def info(manifest: Object, component: str, variant: str) -> Object:
    """Return the executor_info of a variant of a prepared manifest."""
    variants = _object(_object(_object(manifest["components"])[component])["variants"])
    return _object(_object(variants[variant])["executor_info"])


def settled(manifest: Object, uris: Mapping[str, str]) -> Object:
    """Return a prepared manifest in which shared assets are called by what lies in the store.

    Their table isn't carried on: they are found by their directories.

    Args:
        manifest: prepared.
        uris: of every asset that came: of its plaintext, and of its ciphertext.

    Raises:
        InvalidPackageError: it refers to an asset that didn't come.
    """
    for uri in _object(manifest.get("shared_assets", {})):
        if uri not in uris:
            raise _wrong("no file of it came", "shared_assets", uri)
    components: Object = {}
    for component, value in _object(manifest["components"]).items():
        body = _object(value)
        variants: Object = {
            name: _settled_variant(_object(item), uris, "components", component, "variants", name)
            for name, item in _object(body["variants"]).items()
        }
        components[component] = {**body, "variants": variants}
    kept = {key: value for key, value in manifest.items() if key != "shared_assets"}
    return {**kept, "components": components}


def _settled_variant(body: Object, uris: Mapping[str, str], *path: str) -> Object:
    info = _object(body["executor_info"])
    for uri in references.named(info):
        if uri not in uris:
            raise _wrong(f"names {uri}, no asset of the package", *path, "executor_info", "ort")
    return {**body, "executor_info": references.renamed(info, uris)}


def _check_package(root: Object) -> None:
    schema = root.get("schema_version")
    if isinstance(schema, bool) or not isinstance(schema, str | int):
        raise _wrong("must be a string such as 1.0", "schema_version")
    if not _SCHEMA.fullmatch(str(schema)):
        raise _wrong("is one that this release doesn't know; it knows 1.0", "schema_version")
    _texts(root, _TEXTS)
    if root.get("layout", "portable") != "portable":
        raise _wrong("must be portable", "layout")
    for uri, path in _object(root.get("shared_assets", {}), "shared_assets").items():
        if not references.is_uri(uri):
            raise _wrong("is no sha256: and 64 hexadecimal digits", "shared_assets", uri)
        if not isinstance(path, str):
            raise _wrong("must be a string", "shared_assets", uri)
    metadata = _object(root.get("additional_metadata", {}), "additional_metadata")
    if NAMESPACE in metadata:
        raise _wrong("the package is sealed already", "additional_metadata", NAMESPACE)


def _component(name: str, value: JsonValue) -> Object:
    path = ("components", name)
    _name(naming.component, name, *path)
    body = _object(value, *path)
    _known(body, _COMPONENT, *path)
    _texts(body, ("component_name",), *path)
    variants = _object(body.get("variants"), *path, "variants")
    return {**body, "variants": {key: _variant(name, key, item) for key, item in variants.items()}}


def _variant(component: str, name: str, value: JsonValue) -> Object:
    path = ("components", component, "variants", name)
    _name(naming.variant, name, *path)
    body = _object(value, *path)
    _known(body, _VARIANT, *path)
    _texts(body, _VARIANT_TEXTS, *path)
    info = _object(body.get("executor_info", {}), *path, "executor_info")
    for space, inner in info.items():
        _object(inner, *path, "executor_info", space)
    if NAMESPACE in info:
        raise _wrong("is sealcar's own namespace", *path, "executor_info", NAMESPACE)
    return sealed_body(body, (component, name), info)


def _name(check: Callable[[str], str], name: str, *path: str) -> None:
    try:
        check(name)
    except SealcarError as error:
        raise _wrong(error.message, *path) from None


def _texts(value: Object, names: tuple[str, ...], *path: str) -> None:
    for name in names:
        if not isinstance(value.get(name, ""), str):
            raise _wrong("must be a string", *path, name)


def _known(value: Object, names: frozenset[str], *path: str) -> None:
    for name in value:
        if name not in names:
            raise _wrong("is a field that this release doesn't know", *path, name)


def _object(value: JsonValue, *path: str) -> Object:
    if isinstance(value, str):
        raise _wrong("must be written inline, not as a path", *path)
    if not isinstance(value, dict):
        raise _wrong("must be an object", *path)
    return value


def _wrong(finding: str, *path: str) -> InvalidPackageError:
    return InvalidPackageError(f"manifest: {shown(pointer(*path) or '/')} {finding}")
