"""The one injective encoding under every derivation, tag and associated data."""

from __future__ import annotations

from sealcar.errors import InternalError


def enc(*fields: str | bytes | int) -> bytes:
    """Return each field as a 4-byte big-endian length and its bytes.

    Text is UTF-8, an integer 8 bytes big-endian. Two lists of fields of the same types have the
    same encoding only if they are equal.

    Raises:
        InternalError: a field has no encoding; whoever takes names from outside checks them first.
    """
    try:
        return b"".join(_framed(field) for field in fields)
    except (OverflowError, UnicodeEncodeError) as error:
        raise InternalError(f"a field can't be encoded: {error}") from None


def _framed(field: str | bytes | int) -> bytes:
    if isinstance(field, str):
        field = field.encode()
    elif isinstance(field, int):
        field = field.to_bytes(8, "big")
    return len(field).to_bytes(4, "big") + field
