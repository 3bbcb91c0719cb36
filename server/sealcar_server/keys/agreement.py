"""HPKE (RFC 9180) at a receiver whose private key is elsewhere, and only agrees on a secret.

Base mode, DHKEM(P-256, HKDF-SHA256), HKDF-SHA256, AES-256-GCM, one message, no associated data.
"""

from __future__ import annotations

import hmac
from typing import Final

from cryptography.hazmat.primitives.ciphers.aead import AESGCM

POINT: Final = 65  # bytes of an uncompressed one of P-256
_KEM: Final = b"KEM\x00\x10"
_HPKE: Final = b"HPKE\x00\x10\x00\x01\x00\x02"
_VERSION: Final = b"HPKE-v1"
_HASH: Final = 32
_NONCE: Final = 12


def opened(agreed: bytes, sent: bytes, own: bytes, info: bytes, sealed: bytes) -> bytes:
    """Return the message.

    Args:
        agreed: what the private key and `sent` give.
        sent: the sender's point.
        own: the receiver's.
        info: of the message.
        sealed: the ciphertext.

    Raises:
        cryptography.exceptions.InvalidTag: it isn't authentic.
    """
    shared = _expand(
        _KEM, _extract(_KEM, b"", b"eae_prk", agreed), b"shared_secret", sent + own, _HASH
    )
    context = (
        b"\x00"
        + _extract(_HPKE, b"", b"psk_id_hash", b"")
        + _extract(_HPKE, b"", b"info_hash", info)
    )
    secret = _extract(_HPKE, shared, b"secret", b"")
    key = _expand(_HPKE, secret, b"key", context, _HASH)
    nonce = _expand(_HPKE, secret, b"base_nonce", context, _NONCE)
    return AESGCM(key).decrypt(nonce, sealed, b"")


def _extract(suite: bytes, salt: bytes, label: bytes, key: bytes) -> bytes:
    return hmac.digest(salt or bytes(_HASH), _VERSION + suite + label + key, "sha256")


def _expand(suite: bytes, key: bytes, label: bytes, info: bytes, size: int) -> bytes:
    text = size.to_bytes(2, "big") + _VERSION + suite + label + info
    # one block is enough for whatever is asked for here
    return hmac.digest(key, text + b"\x01", "sha256")[:size]
