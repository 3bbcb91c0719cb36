"""Writes a generation's manifest: ORT's own format, with the seal record in its metadata."""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from sealcar.errors import DamagedError, InvalidPackageError
from sealcar_server.sealing import record
from sealcar_server.sealing.agreement import compare
from sealcar_server.sealing.canonical import covered, pointer
from sealcar_server.sealing.strictjson import strict_json
from sealcar_server.sealing.values import RecordVariant, SealRecord
from sealcar_server.service.references import named
from sealcar_server.store.generation import MAX_MANIFEST

if TYPE_CHECKING:
    from collections.abc import Mapping

    from sealcar_server.sealing.derivation import PackageKeys
    from sealcar_server.sealing.strictjson import JsonValue
    from sealcar_server.sealing.values import RecordAsset, RecordPayload

# tells whoever looks at the variant alone that its payloads are sealed
NAMESPACE: Final = "sealcar"
MARK: Final[Mapping[str, str]] = {"format": "1"}
MAX_SEEN: Final = 100_000

Payloads = dict[tuple[str, str], tuple["RecordPayload", ...]]


@dataclass(frozen=True)
class Lineage:
    """What a generation's record says of itself, apart from what is in it."""

    name: str
    version: str
    package_id: bytes
    generation: int
    previous: bytes
    kek_alias: str
    kek_version: str
    wrapped: bytes

    @classmethod
    def after(cls, before: SealRecord, digest: bytes) -> Lineage:
        """Return the lineage of the generation that follows."""
        return cls(
            before.name,
            before.version,
            before.package_id,
            before.generation + 1,
            digest,
            before.kek_alias,
            before.kek_version,
            before.wrapped,
        )


@dataclass(frozen=True)
class Composed:
    """A manifest ready to be published.

    Attributes:
        manifest: its bytes.
        digest: of its record.
        key: fingerprint of the package's key.
    """

    manifest: bytes
    digest: bytes
    key: bytes


def compose(
    manifest: dict[str, JsonValue],
    payloads: Payloads,
    lineage: Lineage,
    keys: PackageKeys,
    assets: tuple[RecordAsset, ...],
) -> Composed:
    """Seal a manifest: every variant of it must be in `payloads`.

    Raises:
        InvalidPackageError: the manifest isn't written inline, names a shared asset that isn't one
            of these, has too many payloads, or couldn't be opened again.
    """
    parts = covered(manifest)
    _check_assets(manifest, payloads, assets)
    variants = tuple(
        RecordVariant(
            item.component,
            item.variant,
            item.body,
            item.executor_info,
            payloads[item.component, item.variant],
        )
        for item in parts.variants
    )
    sealed = SealRecord(
        **vars(lineage),
        package=parts.package,
        components=parts.components,
        variants=variants,
        assets=assets,
    )
    return enclose(manifest, sealed, keys)


def enclose(manifest: dict[str, JsonValue], sealed: SealRecord, keys: PackageKeys) -> Composed:
    """Put a seal record into its manifest, in place of one that is there.

    Raises:
        InvalidPackageError: the two don't agree, or they are too long.
    """
    text = record.serialise(sealed)
    metadata = manifest.get("additional_metadata") or {}
    if not isinstance(metadata, dict):
        raise InvalidPackageError("manifest: /additional_metadata must be an object")
    envelope: dict[str, JsonValue] = dict(record.envelope(text, keys.tag(text)))
    written = _written({**manifest, "additional_metadata": {**metadata, NAMESPACE: envelope}})
    if len(written) > MAX_MANIFEST:
        raise InvalidPackageError("manifest: too many variants and payloads for one package")
    _check_opens(written, text)
    return Composed(written, hashlib.sha256(text).digest(), keys.fingerprint())


def with_variant(
    manifest: dict[str, JsonValue],
    scope: tuple[str, str],
    body: dict[str, JsonValue],
    kept: set[tuple[str, str]],
) -> dict[str, JsonValue]:
    """Return the manifest with one variant added, or replaced in its place.

    Of the others those in `kept` stay: what isn't sealed isn't carried on.
    """
    component, variant = scope
    components = dict(_object(manifest["components"]))
    for name, value in components.items():
        inner = _object(value)
        variants = {
            key: item for key, item in _object(inner["variants"]).items() if (name, key) in kept
        }
        if name == component:
            variants[variant] = body
        components[name] = {**inner, "variants": variants}
    return {**manifest, "components": components}


def sealed_body(
    body: Mapping[str, JsonValue], scope: tuple[str, str], executor_info: Mapping[str, JsonValue]
) -> dict[str, JsonValue]:
    """Return a variant's body with its directory in the store, and the mark of sealed variants."""
    return {
        **body,
        "variant_directory": "/".join(scope),
        "executor_info": {**executor_info, NAMESPACE: dict(MARK)},
    }


def _object(value: JsonValue) -> dict[str, JsonValue]:
    if not isinstance(value, dict):
        raise InvalidPackageError("manifest: components and variants must be objects, inline")
    return value


def _check_assets(
    manifest: dict[str, JsonValue], payloads: Payloads, assets: tuple[RecordAsset, ...]
) -> None:
    sizes = {asset.uri: len(asset.payloads) for asset in assets}
    seen = sum(map(len, payloads.values()))
    for component, body in _object(manifest["components"]).items():
        for variant, item in _object(_object(body)["variants"]).items():
            for uri in named(_object(item).get("executor_info")):
                if uri not in sizes:
                    place = pointer("components", component, "variants", variant, "executor_info")
                    raise InvalidPackageError(
                        f"manifest: {place}/ort names {uri}, no asset of the package"
                    )
                seen += sizes[uri]
    # a description has those of an asset once for each variant that refers to it
    if seen > MAX_SEEN:
        raise InvalidPackageError(
            f"its variants have {seen} payloads together, those of shared assets counted for each; "
            f"at most {MAX_SEEN} are allowed"
        )


def _check_opens(manifest: bytes, text: bytes) -> None:
    """Read what was written as `Opener` will: a generation that nobody can open ends a package."""
    try:
        compare(record.parse(text), strict_json(manifest))
    except DamagedError as error:
        raise InvalidPackageError(error.message) from error


def _written(manifest: dict[str, JsonValue]) -> bytes:
    try:
        return json.dumps(manifest, separators=(",", ":"), ensure_ascii=False).encode() + b"\n"
    except UnicodeEncodeError as error:
        raise InvalidPackageError("manifest: a text has no UTF-8 form") from error
