"""The seal record as bytes, and the envelope that carries it in the manifest.

A record is serialised once and authenticated as those bytes, never as what they parse to. The
daemon acts only on what it says. `parse` runs before the tag can be checked, since the wrapped
package key stands in the record, so it treats every byte as hostile.
"""

from __future__ import annotations

import json
from itertools import chain
from typing import TYPE_CHECKING, Final, NamedTuple, TypeAlias

from sealcar import names
from sealcar.errors import NotAuthenticError, UnknownFormatError
from sealcar_server.sealing.derivation import ID, KEY
from sealcar_server.sealing.fields import DIGEST, MAX_INTEGER, Fields, b64, unb64
from sealcar_server.sealing.strictjson import JsonValue, strict_json
from sealcar_server.sealing.values import (
    RecordAsset,
    RecordComponent,
    RecordPayload,
    RecordVariant,
    SealRecord,
    Transit,
)

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = [
    "RecordAsset",
    "RecordComponent",
    "RecordPayload",
    "RecordVariant",
    "SealRecord",
    "Signature",
    "Transit",
    "envelope",
    "open_envelope",
    "open_signature",
    "parse",
    "serialise",
    "signed_text",
]

FORMAT: Final = "1"
KINDS: Final = ("model", "initializers", "blob", "other")
PUBLISHER: Final = 32
SIGNATURE: Final = 64
_WRAPPED_ASSET: Final = 12 + KEY + 16
_Written: TypeAlias = dict[str, object]


def serialise(record: SealRecord) -> bytes:
    """Return the bytes that are tagged and stored. Never call it to check a record."""
    value: _Written = {
        "format": FORMAT,
        "name": record.name,
        "version": record.version,
        "package_id": b64(record.package_id),
        "generation": record.generation,
        **_present(previous=record.previous),
        "kek": {
            "alias": record.kek_alias,
            "version": record.kek_version,
            "wrapped": b64(record.wrapped),
        },
        "package": _digests(record.package),
        "components": [
            {"component": item.component, "body": b64(item.body)} for item in record.components
        ],
        "variants": [_written_variant(item) for item in record.variants],
        "assets": [_written_asset(item) for item in record.assets],
        **_written_transit(record.transit),
    }
    return json.dumps(value, separators=(",", ":"), ensure_ascii=False).encode()


def parse(data: bytes) -> SealRecord:
    """Return what a record says. It is to be believed only once its tag is checked.

    Raises:
        UnknownFormatError: a newer sealcar wrote it.
        NotAuthenticError: no sealcar wrote it; the message names the place.
    """
    root = Fields(strict_json(data, "seal record", error=NotAuthenticError))
    _check_format(root.text("format"), "the seal record")
    kek = root.inner("kek")
    record = SealRecord(
        name=root.text("name", names.store_name),
        version=root.text("version", names.store_name),
        package_id=root.data("package_id", ID),
        generation=root.integer("generation", 1),
        previous=root.optional("previous", DIGEST),
        kek_alias=kek.text("alias"),
        kek_version=kek.text("version"),
        wrapped=kek.data("wrapped"),
        package=root.digests("package"),
        components=tuple(map(_component, root.each("components"))),
        variants=tuple(map(_variant, root.each("variants"))),
        assets=tuple(map(_asset, root.each("assets"))),
        transit=_transit(root.inner("transit")) if root.has("transit") else None,
    )
    kek.end()
    root.end()
    _check_unique(root, [item.component for item in record.components], "component")
    _check_unique(root, [(item.component, item.variant) for item in record.variants], "variant")
    _check_unique(root, [item.uri for item in record.assets], "asset")
    lists = [item.payloads for item in record.variants] + [item.payloads for item in record.assets]
    if sum(payload.size for payload in chain.from_iterable(lists)) > MAX_INTEGER:
        raise root.wrong("names payloads of more than 2^63-1 bytes together")
    return record


class Signature(NamedTuple):
    """A publisher's, by Ed25519: his public key, and what he made with the private one."""

    publisher: bytes
    signature: bytes


def signed_text(record: bytes) -> bytes:
    """Return what a publisher signs."""
    return b"sealcar v1 publisher\0" + record


def envelope(record: bytes, tag: bytes, signature: Signature | None = None) -> dict[str, str]:
    """Return what stands under "sealcar" in the manifest's additional_metadata."""
    signed = {name: b64(value) for name, value in signature._asdict().items()} if signature else {}
    return {"format": FORMAT, "record": b64(record), "tag": b64(tag), **signed}


def open_envelope(manifest: JsonValue) -> tuple[bytes, bytes]:
    """Return the record and its tag from a manifest.

    Raises:
        UnknownFormatError: the package isn't sealed, or a newer sealcar sealed it.
        NotAuthenticError: the envelope is malformed.
    """
    place = _place(manifest)
    _check_format(place.text("format"), "the package")
    text, tag = place.text("record"), place.data("tag", DIGEST)
    _signature(place)
    place.end()
    try:
        return unb64(text), tag
    except NotAuthenticError as error:
        raise place.wrong(error.message, "record") from None


def open_signature(manifest: JsonValue) -> Signature | None:
    """Return who signed the record in a manifest, as he claims; raises as `open_envelope`."""
    return _signature(_place(manifest))


def _place(manifest: JsonValue) -> Fields:
    metadata = manifest.get("additional_metadata") if isinstance(manifest, dict) else None
    if not isinstance(metadata, dict) or "sealcar" not in metadata:
        raise UnknownFormatError("the manifest holds no seal record: sealcar didn't seal it")
    return Fields(metadata["sealcar"], "/additional_metadata/sealcar", what="manifest")


def _signature(place: Fields) -> Signature | None:
    publisher = place.optional("publisher", PUBLISHER)
    signature = place.optional("signature", SIGNATURE)
    if bool(publisher) is not bool(signature):
        raise place.wrong("must have publisher and signature, or neither")
    return Signature(publisher, signature) if publisher else None


def _check_format(found: str, what: str) -> None:
    if found != FORMAT:
        raise UnknownFormatError(
            f"{what} is of format {found[:20]!a}, and this release reads {FORMAT}: update it"
        )


def _check_unique(root: Fields, keys: list[object], what: str) -> None:
    if len(set(keys)) != len(keys):
        raise root.wrong(f"names one {what} twice")


def _present(**fields: bytes) -> _Written:
    return {name: b64(value) for name, value in fields.items() if value}


def _digests(values: Mapping[str, bytes]) -> dict[str, str]:
    return {name: b64(value) for name, value in values.items()}


def _written_variant(item: RecordVariant) -> _Written:
    return {
        "component": item.component,
        "variant": item.variant,
        "body": b64(item.body),
        "executor_info": _digests(item.executor_info),
        "payloads": [_written_payload(payload) for payload in item.payloads],
    }


def _written_asset(item: RecordAsset) -> _Written:
    return {
        "uri": item.uri,
        "asset_id": b64(item.asset_id),
        "wrapped": b64(item.wrapped),
        "payloads": [_written_payload(payload) for payload in item.payloads],
    }


def _written_payload(item: RecordPayload) -> _Written:
    return {
        "name": item.name,
        "kind": item.kind,
        "sealed": item.sealed,
        "size": item.size,
        **_present(commitment=item.commitment, digest=item.digest, sha256=item.sha256),
    }


def _written_transit(transit: Transit | None) -> _Written:
    if transit is None:
        return {}
    return {"transit": {"not_after": transit.not_after} if transit.not_after else {}}


def _transit(fields: Fields) -> Transit:
    made = Transit(fields.integer("not_after", 1) if fields.has("not_after") else 0)
    fields.end()
    return made


def _component(fields: Fields) -> RecordComponent:
    made = RecordComponent(fields.text("component", _part), fields.data("body", DIGEST))
    fields.end()
    return made


def _variant(fields: Fields) -> RecordVariant:
    made = RecordVariant(
        component=fields.text("component", _part),
        variant=fields.text("variant", _part),
        body=fields.data("body", DIGEST),
        executor_info=fields.digests("executor_info"),
        payloads=_payloads(fields),
    )
    fields.end()
    return made


def _asset(fields: Fields) -> RecordAsset:
    made = RecordAsset(
        uri=fields.text("uri"),
        asset_id=fields.data("asset_id", ID),
        wrapped=fields.data("wrapped", _WRAPPED_ASSET),
        payloads=_payloads(fields),
    )
    fields.end()
    return made


def _payloads(fields: Fields) -> tuple[RecordPayload, ...]:
    payloads = tuple(map(_payload, fields.each("payloads")))
    _check_unique(fields, [item.name.casefold() for item in payloads], "payload")
    return payloads


def _payload(fields: Fields) -> RecordPayload:
    sealed = fields.flag("sealed")
    made = RecordPayload(
        name=fields.text("name", names.payload),
        kind=fields.text("kind"),
        size=fields.integer("size"),
        sealed=sealed,
        commitment=fields.data("commitment", DIGEST) if sealed else b"",
        digest=fields.optional("digest", DIGEST) if sealed else b"",
        sha256=b"" if sealed else fields.data("sha256", DIGEST),
    )
    if made.kind not in KINDS:
        raise fields.wrong(f"must be one of {', '.join(KINDS)}", "kind")
    fields.end()
    return made


def _part(name: str) -> str:
    return names.part(name, "name")
