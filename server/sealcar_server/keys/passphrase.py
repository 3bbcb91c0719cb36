"""Key-encryption keys under a passphrase: what a stolen key file alone doesn't give away.

    sealcar key-encryption keys under a passphrase, format 1
    scrypt 17 8 1 5f0e…            log2 N, r, p, and a salt of 16 bytes
    a91c…                          nonce, AES-256-GCM of the key file's text, its tag

The two first lines are the associated data. Numbers in hexadecimal digits are lower-case.
"""

from __future__ import annotations

import os
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from cryptography.hazmat.primitives.kdf.scrypt import Scrypt

from sealcar.errors import ConfigurationError, KeyRefusedError
from sealcar_server.sealing.secret import SecretBuffer

if TYPE_CHECKING:
    from pathlib import Path

TITLE: Final = b"sealcar key-encryption keys under a passphrase, format 1\n"
_COST: Final = (17, 8, 1)  # 128 MiB and some tenths of a second a guess
_HEAD: Final = re.compile(
    TITLE + rb"scrypt (\d{1,2}) (\d{1,2}) (\d) ([0-9a-f]{32})\n([0-9a-f]{56,})\n"
)
_LOWEST, _HIGHEST = 14, 20  # of log2 N: weaker is no protection, dearer fills the memory
_MAX_R: Final = 16
_NONCE: Final = 12
_TAG: Final = 16
_SHORTEST: Final = 12


@dataclass(frozen=True, slots=True)
class _Cost:
    """What one guess costs."""

    log_n: int
    r: int
    p: int
    salt: bytes

    @property
    def line(self) -> bytes:
        return b"scrypt %d %d %d %s\n" % (self.log_n, self.r, self.p, self.salt.hex().encode())


def seal(text: SecretBuffer, passphrase: SecretBuffer) -> bytes:
    """Return a key file's text under a passphrase.

    Raises:
        ConfigurationError: the passphrase is short.
    """
    if len(passphrase) < _SHORTEST:
        raise ConfigurationError(f"a passphrase has at least {_SHORTEST} bytes")
    cost = _Cost(*_COST, os.urandom(16))
    head = TITLE + cost.line
    nonce = os.urandom(_NONCE)
    with _derived(passphrase, cost) as key:
        sealed = nonce + AESGCM(key.view).encrypt(nonce, text.view, head)
    return head + sealed.hex().encode() + b"\n"


def unseal(sealed: memoryview, passphrase: SecretBuffer, path: Path) -> SecretBuffer:
    """Return the text again.

    Raises:
        ConfigurationError: not of this form.
        KeyRefusedError: another passphrase sealed it, or it was changed since.
    """
    match = _HEAD.fullmatch(sealed)
    if not match:
        raise ConfigurationError(f"key file {path} isn't of the form that a passphrase seals")
    cost = _Cost(int(match[1]), int(match[2]), int(match[3]), bytes.fromhex(match[4].decode()))
    if not (_LOWEST <= cost.log_n <= _HIGHEST and 1 <= cost.r <= _MAX_R and cost.p == 1):
        raise ConfigurationError(f"key file {path}: its scrypt cost is out of range")
    body = bytes.fromhex(match[5].decode())
    text = SecretBuffer(len(body) - _NONCE - _TAG)
    try:
        with _derived(passphrase, cost) as key:
            cipher, head = AESGCM(key.view), TITLE + cost.line
            cipher.decrypt_into(body[:_NONCE], body[_NONCE:], head, text.view)
    except InvalidTag:
        text.close()
        raise KeyRefusedError(
            f"the passphrase doesn't open key file {path}, or the file was changed"
        ) from None
    return text


def _derived(passphrase: SecretBuffer, cost: _Cost) -> SecretBuffer:
    key = SecretBuffer(32)
    kdf = Scrypt(salt=cost.salt, length=32, n=1 << cost.log_n, r=cost.r, p=cost.p)
    kdf.derive_into(passphrase.view, key.view)
    return key
