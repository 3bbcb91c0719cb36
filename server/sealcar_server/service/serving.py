"""From an authentic record to what callers get: values, and payloads open for reading."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from sealcar.errors import NotFoundError, TruncatedError, UnknownFormatError
from sealcar_server.sealing.reader import SealedReader
from sealcar_server.sealing.values import RecordAsset
from sealcar_server.service.values import AssetValue, PayloadValue, VariantValue
from sealcar_server.service.writing import identity

if TYPE_CHECKING:
    from sealcar_server.sealing.derivation import PackageKeys, PayloadKey
    from sealcar_server.sealing.scratch import Scratch
    from sealcar_server.sealing.sealed_file import SealedFile
    from sealcar_server.sealing.values import RecordPayload, RecordVariant
    from sealcar_server.service.opened import Held, OpenedPackage
    from sealcar_server.service.opening import Opener


def open_reader(
    opener: Opener, opened: OpenedPackage, held: Held, scratch: Scratch, *, at_once: bool = False
) -> SealedReader:
    """Open a payload's file against its record.

    Raises:
        NotFoundError: the whole generation was removed since it was opened.
        UnknownFormatError: it is stored in plain.
        TruncatedError: the file is missing, or its size isn't the record's.
        NotAuthenticError: it isn't the stream that the record names.
    """
    payload = held.payload
    if not payload.sealed:
        raise UnknownFormatError("the payload is stored in plain: this release serves sealed ones")
    with opener.keys(opened) as keys:
        key = payload_key(keys, held)
    return reader_of(open_file(opened, held), key, payload, scratch, at_once=at_once)


def reader_of(
    file: SealedFile,
    key: PayloadKey,
    payload: RecordPayload,
    scratch: Scratch,
    *,
    at_once: bool = False,
) -> SealedReader:
    """Read a sealed file against its record; takes over `file`, and raises as `SealedReader`."""
    return SealedReader(
        file,
        key,
        commitment=payload.commitment,
        plain_size=payload.size,
        scratch=scratch,
        at_once=at_once,
    )


def open_file(opened: OpenedPackage, held: Held) -> SealedFile:
    """Return a payload's file, open for reading, which the caller owns.

    Raises:
        NotFoundError: the whole generation was removed since it was opened.
        TruncatedError: the file is missing.
    """
    try:
        return held.open(opened.place)
    except NotFoundError as error:
        _refuse_removed(opened)
        raise TruncatedError("the payload's file is missing from the store") from error


def keyed_digest(keys: PackageKeys, held: Held, sha256: bytes) -> bytes:
    """Return what the record says of a payload with this plaintext, if it says anything."""
    owner, name = held.owner, held.payload.name
    if isinstance(owner, RecordAsset):
        return keys.asset_digest(owner.asset_id, name, sha256)
    return keys.digest(owner.component, owner.variant, name, sha256)


def payload_key(keys: PackageKeys, held: Held) -> PayloadKey:
    """Return what a payload is sealed with.

    Raises:
        NotAuthenticError: it is an asset's, whose key wasn't wrapped for this package.
    """
    owner, name = held.owner, held.payload.name
    if isinstance(owner, RecordAsset):
        with keys.unwrap_asset(owner.wrapped, owner.asset_id) as asset_key:
            return keys.asset(asset_key, owner.asset_id, name)
    return keys.variant(owner.component, owner.variant, name)


def _refuse_removed(opened: OpenedPackage) -> None:
    # it is moved away whole, so one without its manifest isn't damaged but gone
    try:
        opened.place.manifest()
    except NotFoundError:
        raise NotFoundError("the generation was removed meanwhile: open the package anew") from None


def payload_value(payload: RecordPayload, name: str = "") -> PayloadValue:
    """Return a payload of the record as callers see it, perhaps by another name."""
    name = name or payload.name
    return PayloadValue(name, payload.kind, payload.size, payload.sealed, identity(payload))


def asset_value(asset: RecordAsset) -> AssetValue:
    """Return a shared asset of the record as callers see it."""
    return AssetValue(asset.uri, tuple(map(payload_value, asset.payloads)))


def variant_value(opened: OpenedPackage, variant: RecordVariant) -> VariantValue:
    """Return a variant of the record, with what its manifest says, as callers see it."""
    body = opened.body(variant.component, variant.variant)
    seen = opened.seen_from(variant)
    return VariantValue(
        component=variant.component,
        variant=variant.variant,
        ep=str(body.get("ep", "")),
        device=str(body.get("device", "")),
        compatibility=str(body.get("compatibility_string", "")),
        executor_info_json=json.dumps(body.get("executor_info", {}), ensure_ascii=False),
        payloads=tuple(payload_value(held.payload, held.name) for held in seen),
    )
