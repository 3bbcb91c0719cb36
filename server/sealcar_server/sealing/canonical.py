"""Digests of what ONNX Runtime reads in a manifest, whatever way the JSON text is written.

`canonical` gives parsed JSON one binary form; `covered` says which parts of a manifest the seal
record hashes. Left out on purpose, and never acted upon: descriptions and additional_metadata.
"""

from __future__ import annotations

import hashlib
import struct
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from sealcar.errors import InvalidPackageError
from sealcar_server.sealing.encoding import enc

if TYPE_CHECKING:
    from collections.abc import Mapping

    from sealcar_server.sealing.strictjson import JsonValue

_PACKAGE: Final[tuple[str, ...]] = (
    "schema_version",
    "package_name",
    "package_version",
    "layout",
    "shared_assets",
)
_OF_COMPONENT: Final = frozenset({"variants", "additional_metadata"})
_OF_VARIANT: Final = frozenset({"executor_info", "additional_metadata"})
_CONSTANTS: Final = {None: b"n", True: b"t", False: b"f"}


@dataclass(frozen=True, slots=True)
class CoveredComponent:
    """Digest of a component's body without its variants."""

    component: str
    body: bytes


@dataclass(frozen=True, slots=True)
class CoveredVariant:
    """Digests of a variant's body without its executor_info, and of each namespace of that."""

    component: str
    variant: str
    body: bytes
    executor_info: Mapping[str, bytes]


@dataclass(frozen=True, slots=True)
class Covered:
    """The digests of one manifest, in its order.

    Attributes:
        package: of the top-level fields that ORT reads, by name; absent fields are absent.
        components: every one of them.
        variants: of all components; the order decides which of two equal ones is selected.
    """

    package: Mapping[str, bytes]
    components: tuple[CoveredComponent, ...]
    variants: tuple[CoveredVariant, ...]


def canonical(value: JsonValue) -> bytes:
    """Return T(value): equal for two values only if they mean the same to every reader."""
    if value is None or isinstance(value, bool):
        return _CONSTANTS[value]
    if isinstance(value, str):
        return b"s" + enc(value)
    if isinstance(value, int):
        return b"i" + enc(str(value))
    if isinstance(value, float):
        return b"d" + struct.pack(">d", value)
    count = len(value).to_bytes(4, "big")
    if isinstance(value, list):
        return b"a" + count + b"".join(map(canonical, value))
    return b"o" + count + b"".join(enc(key) + canonical(item) for key, item in value.items())


def digest(value: JsonValue) -> bytes:
    """Return SHA-256 of T(value)."""
    return hashlib.sha256(canonical(value)).digest()


def covered(manifest: JsonValue) -> Covered:
    """Return the digests of everything in a manifest that the seal record covers.

    Raises:
        InvalidPackageError: a component, variant or executor_info isn't written inline.
    """
    root = _object(manifest)
    components = _object(root.get("components"), "components")
    bodies: list[CoveredComponent] = []
    variants: list[CoveredVariant] = []
    for component, value in components.items():
        body = _object(value, "components", component)
        bodies.append(CoveredComponent(component, _without(body, _OF_COMPONENT)))
        inner = _object(body.get("variants"), "components", component, "variants")
        variants += [_variant(component, name, item) for name, item in inner.items()]
    package = {name: digest(root[name]) for name in _PACKAGE if name in root}
    return Covered(package, tuple(bodies), tuple(variants))


def pointer(*path: str) -> str:
    """Return the place in the manifest for a message: a JSON Pointer (RFC 6901), in ASCII."""
    text = "".join("/" + step.replace("~", "~0").replace("/", "~1") for step in path)
    return ascii(text)[1:-1]


def _variant(component: str, name: str, value: JsonValue) -> CoveredVariant:
    path = ("components", component, "variants", name)
    body = _object(value, *path)
    info = _object(body.get("executor_info", {}), *path, "executor_info")
    spaces = {
        space: digest(_object(item, *path, "executor_info", space)) for space, item in info.items()
    }
    return CoveredVariant(component, name, _without(body, _OF_VARIANT), spaces)


def _without(body: dict[str, JsonValue], names: frozenset[str]) -> bytes:
    return digest({name: value for name, value in body.items() if name not in names})


def _object(value: JsonValue, *path: str) -> dict[str, JsonValue]:
    if not isinstance(value, dict):
        raise InvalidPackageError(f"manifest: {pointer(*path) or '/'} must be an object, inline")
    return value
