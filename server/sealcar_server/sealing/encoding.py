"""The one injective encoding under every derivation, tag and associated data."""

from __future__ import annotations

import struct
from typing import Final

from sealcar.errors import InternalError

_LENGTH: Final = struct.Struct(">I")


def enc(*fields: str | bytes | int) -> bytes:
    """Return each field as a 4-byte big-endian length and its bytes.

    Text is UTF-8, an integer 8 bytes big-endian. Two lists of fields of the same types have the
    same encoding only if they are equal.

    Raises:
        InternalError: a field has no encoding; whoever takes names from outside checks them first.
    """
    try:
        framed: list[bytes] = []
        for field in fields:
            raw = field.encode() if isinstance(field, str) else _raw(field)
            framed += (_LENGTH.pack(len(raw)), raw)
        return b"".join(framed)
    except (OverflowError, UnicodeEncodeError, struct.error) as error:
        raise InternalError(f"a field can't be encoded: {error}") from None


def _raw(field: bytes | int) -> bytes:
    return field.to_bytes(8, "big") if isinstance(field, int) else field
