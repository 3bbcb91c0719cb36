"""From a package's root key to every key that is used: one label each, no key used twice.

    D(root, label, fields…) = HKDF-SHA256(root, salt = SHA-256("sealcar v1"), info = enc(…))

A root is used in HKDF and nowhere else; the key of a stream is used for the stream and for its
commitment, and is never a root.
"""

from __future__ import annotations

import hashlib
import hmac
import os
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Final

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from cryptography.hazmat.primitives.kdf.hkdf import HKDF

from sealcar.closing import Closing
from sealcar.errors import NotAuthenticError
from sealcar_server.sealing.encoding import enc
from sealcar_server.sealing.layout import AES256_GCM_HKDF_1MB, SEGMENT, TAG, Params
from sealcar_server.sealing.secret import SecretBuffer

KEY: Final = 32
ID: Final = 16
_NONCE: Final = 12
_SALT: Final = hashlib.sha256(b"sealcar v1").digest()
# 42 bytes: after HMAC's padding it equals no 32-byte salt, so it can't meet a stream's key
_COMMITMENT_SALT: Final = b"sealcar v1 key commitment, not a Tink salt"
_PAYLOAD: Final = "sealcar v1 payload"
_RECORD: Final = b"sealcar v1 record\0"


@dataclass(frozen=True, slots=True)
class PayloadKey:
    """What one payload is sealed with. Its repr shows nothing secret.

    Attributes:
        key: the Tink key value.
        associated_data: names everything that decides which payload this is.
        params: of the stream.
    """

    key: bytes = field(repr=False)
    associated_data: bytes
    params: Params = AES256_GCM_HKDF_1MB

    def commitment(self, header: bytes) -> bytes:
        """Return what pins this key, this associated data and the stream with this header."""
        info = enc(self.associated_data, header)
        return HKDF(hashes.SHA256(), KEY, salt=_COMMITMENT_SALT, info=info).derive(self.key)


@lru_cache(1024)
def _info(label: str, *fields: str | bytes) -> bytes:
    """Return what a key is derived for: as public as a payload's associated data."""
    return enc(label, *fields)


@lru_cache(1024)
def _named(package_id: bytes, component: str, variant: str, name: str) -> bytes:
    """Return the associated data of a variant's payload: public, and asked for at every read."""
    return enc(_PAYLOAD, "variant", package_id, component, variant, name, SEGMENT)


def derive(root: SecretBuffer, label: str, *fields: str | bytes) -> bytes:
    """Return D(root, label, fields…)."""
    return HKDF(hashes.SHA256(), KEY, salt=_SALT, info=_info(label, *fields)).derive(root.view)


class PackageKeys(Closing):
    """Everything that a package's root key is used for.

    Args:
        root: the package key. It belongs to this object from now on.
        package_id: 16 bytes.
    """

    def __init__(self, root: SecretBuffer, package_id: bytes) -> None:
        self._root = root
        self._id = package_id

    def tag(self, record: bytes) -> bytes:
        """Return the tag that authenticates a seal record."""
        return hmac.digest(derive(self._root, "record", self._id), _RECORD + record, "sha256")

    def verify_tag(self, record: bytes, tag: bytes) -> None:
        """Check a seal record.

        Raises:
            NotAuthenticError: the holder of the key didn't write it.
        """
        if not hmac.compare_digest(self.tag(record), tag):
            raise NotAuthenticError("the seal record isn't authentic under the package's key")

    def variant(self, component: str, variant: str, name: str) -> PayloadKey:
        """Return the key of a variant's payload."""
        scope = (self._id, component, variant)
        return PayloadKey(derive(self._root, "variant", *scope), _named(*scope, name))

    def asset(self, asset_key: SecretBuffer, asset_id: bytes, name: str) -> PayloadKey:
        """Return the key of a shared asset's payload: the same from every package that uses it."""
        data = enc(_PAYLOAD, "asset", asset_id, name, SEGMENT)
        return PayloadKey(derive(asset_key, "asset", asset_id), data)

    def digest(self, component: str, variant: str, name: str, sha256: bytes) -> bytes:
        """Return the keyed digest of a variant's payload, which tells nothing without the key."""
        return self._keyed_digest(enc(component, variant, name), sha256)

    def asset_digest(self, asset_id: bytes, name: str, sha256: bytes) -> bytes:
        """Return the keyed digest of an asset's payload."""
        return self._keyed_digest(enc(asset_id, name), sha256)

    def wrap_asset(self, asset_key: SecretBuffer, asset_id: bytes) -> bytes:
        """Return an asset key wrapped under this package's key, bound to both."""
        nonce = os.urandom(_NONCE)
        cipher = AESGCM(derive(self._root, "asset-wrap", self._id))
        return nonce + cipher.encrypt(nonce, asset_key.view, self._asset_context(asset_id))

    def unwrap_asset(self, wrapped: bytes, asset_id: bytes) -> SecretBuffer:
        """Return the asset key.

        Raises:
            NotAuthenticError: it wasn't wrapped for this package and this asset.
        """
        key = SecretBuffer(KEY)
        if len(wrapped) == _NONCE + KEY + TAG:
            cipher = AESGCM(derive(self._root, "asset-wrap", self._id))
            context = self._asset_context(asset_id)
            try:
                cipher.decrypt_into(wrapped[:_NONCE], wrapped[_NONCE:], context, key.view)
            except InvalidTag:
                pass  # refused below, like a wrong size
            else:
                return key
        key.close()
        raise NotAuthenticError("the asset's key wasn't wrapped for this package")

    def asset_label(self, alias: str, uri: str) -> str:
        """Return under which name the index has an asset; of a store's keys, for others noise.

        Args:
            alias: of the key-encryption key of the packages that may share it.
            uri: of the plaintext.
        """
        key = derive(self._root, "asset-index", self._id)
        return hmac.digest(key, enc("asset", alias, uri), "sha256").hex()

    def resume_key(self) -> bytes:
        """Return what authenticates how far a check of payloads has come; it is never stored."""
        return derive(self._root, "resume", self._id)

    def fingerprint(self) -> bytes:
        """Return what tells this package's key from any other, and nothing else of it."""
        return derive(self._root, "fingerprint", self._id)

    def close(self) -> None:
        """Wipe the root key. No other method works afterwards."""
        self._root.close()

    def _keyed_digest(self, name: bytes, sha256: bytes) -> bytes:
        return hmac.digest(derive(self._root, "digest", self._id), name + sha256, "sha256")

    def _asset_context(self, asset_id: bytes) -> bytes:
        return enc("asset-key", self._id, asset_id)
