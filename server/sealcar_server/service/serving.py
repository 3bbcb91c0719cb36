"""From an authentic record to what callers get: values, and payloads open for reading."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from sealcar.errors import NotFoundError, TruncatedError, UnknownFormatError
from sealcar_server.sealing.reader import SealedReader
from sealcar_server.service.values import PayloadValue, VariantValue
from sealcar_server.service.writing import identity

if TYPE_CHECKING:
    from sealcar_server.sealing.scratch import Scratch
    from sealcar_server.sealing.values import RecordPayload, RecordVariant
    from sealcar_server.service.opened import OpenedPackage
    from sealcar_server.service.opening import Opener


def open_reader(
    opener: Opener,
    opened: OpenedPackage,
    variant: RecordVariant,
    payload: RecordPayload,
    scratch: Scratch,
) -> SealedReader:
    """Open a payload's file against its record.

    Raises:
        NotFoundError: the whole generation was removed since it was opened.
        UnknownFormatError: it is stored in plain.
        TruncatedError: the file is missing, or its size isn't the record's.
        NotAuthenticError: it isn't the stream that the record names.
    """
    if not payload.sealed:
        raise UnknownFormatError("the payload is stored in plain: this release serves sealed ones")
    key = opener.payload_key(opened, variant.component, variant.variant, payload.name)
    try:
        fd = opened.place.open_payload(variant.component, variant.variant, payload.name)
    except NotFoundError as error:
        _refuse_removed(opened)
        raise TruncatedError("the payload's file is missing from the store") from error
    return SealedReader(
        fd, key, commitment=payload.commitment, plain_size=payload.size, scratch=scratch
    )


def _refuse_removed(opened: OpenedPackage) -> None:
    # it is moved away whole, so one without its manifest isn't damaged but gone
    try:
        opened.place.manifest()
    except NotFoundError:
        raise NotFoundError("the generation was removed meanwhile: open the package anew") from None


def payload_value(payload: RecordPayload) -> PayloadValue:
    """Return a payload of the record as callers see it."""
    return PayloadValue(payload.name, payload.kind, payload.size, payload.sealed, identity(payload))


def variant_value(opened: OpenedPackage, variant: RecordVariant) -> VariantValue:
    """Return a variant of the record, with what its manifest says, as callers see it."""
    body = opened.body(variant.component, variant.variant)
    return VariantValue(
        component=variant.component,
        variant=variant.variant,
        ep=str(body.get("ep", "")),
        device=str(body.get("device", "")),
        compatibility=str(body.get("compatibility_string", "")),
        executor_info_json=json.dumps(body.get("executor_info", {}), ensure_ascii=False),
        payloads=tuple(map(payload_value, variant.payloads)),
    )
