"""Payload keys as a Tink keyset, so that any Tink opens what they sealed.

Written by hand, as Tink's `tink.proto` and `aes_gcm_hkdf_streaming.proto` have it: the daemon needs
no Tink. Every key has the output prefix RAW, since nothing stands before a stream; Tink then tries
one after the other.
"""

from __future__ import annotations

import base64
import json
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from collections.abc import Sequence

    from sealcar_server.sealing.derivation import PayloadKey

_TYPE: Final = "type.googleapis.com/google.crypto.tink.AesGcmHkdfStreamingKey"
_HASHES: Final = {"SHA1": 1, "SHA384": 2, "SHA256": 3, "SHA512": 4}
# enumerators of tink.proto
_SYMMETRIC: Final = 1
_ENABLED: Final = 1
_RAW: Final = 3
_BITS: Final = 7  # of a number in each byte of its encoding


def binary_keyset(keys: Sequence[PayloadKey]) -> bytes:
    """Return a serialised `google.crypto.tink.Keyset`; the first key is the primary one."""
    entries = []
    for number, key in enumerate(keys, 1):
        data = _text(1, _TYPE.encode()) + _text(2, _key(key)) + _number(3, _SYMMETRIC)
        entry = _text(1, data) + _number(2, _ENABLED) + _number(3, number) + _number(4, _RAW)
        entries.append(_text(2, entry))
    return _number(1, 1) + b"".join(entries)


def clear_keyset(keys: Sequence[PayloadKey]) -> bytes:
    """Return a keyset as Tink's JSON format has it; whoever reads it has the keys."""
    entries = [
        {
            "keyData": {
                "typeUrl": _TYPE,
                "value": base64.b64encode(_key(key)).decode(),
                "keyMaterialType": "SYMMETRIC",
            },
            **_state(number),
        }
        for number, key in enumerate(keys, 1)
    ]
    return _json({"primaryKeyId": 1, "key": entries})


def encrypted_keyset(count: int, ciphertext: bytes) -> bytes:
    """Return an encrypted keyset as Tink's JSON format has it.

    Args:
        count: how many keys are in it.
        ciphertext: of `binary_keyset`.
    """
    info = [{"typeUrl": _TYPE, **_state(number)} for number in range(1, count + 1)]
    return _json(
        {
            "encryptedKeyset": base64.b64encode(ciphertext).decode(),
            "keysetInfo": {"primaryKeyId": 1, "keyInfo": info},
        }
    )


def _key(key: PayloadKey) -> bytes:
    params = key.params
    inner = _number(1, params.segment) + _number(2, params.derived_key)
    return _text(2, inner + _number(3, _HASHES[params.digest])) + _text(3, key.key)


def _state(number: int) -> dict[str, Any]:
    return {"status": "ENABLED", "keyId": number, "outputPrefixType": "RAW"}


def _json(value: dict[str, Any]) -> bytes:
    return json.dumps(value, indent=2).encode() + b"\n"


def _number(field: int, value: int) -> bytes:
    return _varint(field << 3) + _varint(value)


def _text(field: int, value: bytes) -> bytes:
    return _varint(field << 3 | 2) + _varint(len(value)) + value


def _varint(value: int) -> bytes:
    made = bytearray()
    while value >> _BITS:
        made.append(value & 0x7F | 0x80)
        value >>= _BITS
    made.append(value)
    return bytes(made)
