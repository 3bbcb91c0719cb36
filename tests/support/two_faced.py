"""One stream that opens under two keys: AES-GCM commits to neither key nor associated data."""

from __future__ import annotations

import os
import struct
from typing import TYPE_CHECKING, Final

from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes
from cryptography.hazmat.primitives.kdf.hkdf import HKDF

from sealcar_server.sealing.layout import PREFIX

if TYPE_CHECKING:
    from sealcar_server.sealing.derivation import PayloadKey

_BLOCK: Final = 16
_TOP: Final = 127
_POLYNOMIAL: Final = 0xE1 << 120
# by Fermat: x to this power is the inverse of x
_INVERSE: Final = (1 << 128) - 2


def two_faced(first: PayloadKey, second: PayloadKey, blocks: int) -> bytes:
    """Return a stream of one segment, so many blocks of 16 bytes, that both keys open.

    All blocks but the last are free; the last is solved so that both tags agree.
    """
    params = first.params
    salt, prefix = os.urandom(params.derived_key), os.urandom(PREFIX)
    nonce = prefix + struct.pack(">IB", 0, 1)
    sides = [_Side(_stream_key(key, salt), nonce) for key in (first, second)]
    free = [int.from_bytes(os.urandom(_BLOCK)) for _ in range(blocks - 1)]
    difference = sides[0].tag([*free, 0]) ^ sides[1].tag([*free, 0])
    factor = _power(sides[0].hash_key, 2) ^ _power(sides[1].hash_key, 2)
    last = _times(difference, _power(factor, _INVERSE))
    tag = sides[0].tag([*free, last])
    assert tag == sides[1].tag([*free, last])
    body = b"".join(block.to_bytes(_BLOCK) for block in (*free, last, tag))
    return bytes([params.header]) + salt + prefix + body


def _stream_key(key: PayloadKey, salt: bytes) -> bytes:
    size = key.params.derived_key
    return HKDF(hashes.SHA256(), size, salt=salt, info=key.associated_data).derive(key.key)


class _Side:
    """What a forger needs of AES-GCM, for one key and nonce."""

    def __init__(self, key: bytes, nonce: bytes) -> None:
        block = Cipher(algorithms.AES(key), modes.ECB()).encryptor().update  # noqa: S305  (GCM's block cipher)
        self.hash_key = int.from_bytes(block(bytes(_BLOCK)))
        self._mask = int.from_bytes(block(nonce + struct.pack(">I", 1)))

    def tag(self, ciphertext: list[int]) -> int:
        total = 0
        for value in [*ciphertext, len(ciphertext) * 8 * _BLOCK]:
            total = _times(total ^ value, self.hash_key)
        return total ^ self._mask


def _times(x: int, y: int) -> int:
    """Multiply in GCM's field, whose bits SP 800-38D numbers from the other end."""
    product = 0
    for bit in range(_TOP, -1, -1):
        if y >> bit & 1:
            product ^= x
        x = x >> 1 ^ (_POLYNOMIAL if x & 1 else 0)
    return product


def _power(x: int, exponent: int) -> int:
    result = 1 << _TOP
    while exponent:
        if exponent & 1:
            result = _times(result, x)
        x, exponent = _times(x, x), exponent >> 1
    return result
