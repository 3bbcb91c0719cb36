"""Key-encryption keys in a file of the daemon's: the embedded default.

A wrapped key is a 12-byte random nonce, then AES-256-GCM of the key with the context as associated
data: 60 bytes.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Final, Self

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

from sealcar.errors import ConfigurationError, KeyRefusedError, KeyUnavailableError
from sealcar_server.keys import keyfile
from sealcar_server.keys.provider import WrappedKey
from sealcar_server.sealing.secret import SecretBuffer

if TYPE_CHECKING:
    from pathlib import Path

_NONCE: Final = 12
_BLOB: Final = _NONCE + 32 + 16


class FileProvider:
    """A `KeyProvider` over one key file, read once.

    Args:
        path: of the file, of mode 0600 and owned by the daemon or root.

    Raises:
        ConfigurationError: not such a file.
        KeyUnavailableError: it can't be read.
    """

    kind: Final = "file"

    def __init__(self, path: Path) -> None:
        self._path = path
        self._keys = keyfile.read(path)

    @classmethod
    def create(cls, path: Path) -> Self:
        """Make the file with one new key.

        Raises:
            AlreadyExistsError: there is one; it is never replaced.
            StorageError: it can't be written.
        """
        keyfile.create(path)
        return cls(path)

    def wrap(self, key: SecretBuffer, context: bytes) -> WrappedKey:
        """Wrap a key under the newest version."""
        version = self.current_version()
        nonce = os.urandom(_NONCE)
        blob = nonce + self._cipher(version).encrypt(nonce, key.view, context)
        return WrappedKey(version, blob)

    def unwrap(self, wrapped: WrappedKey, context: bytes) -> SecretBuffer:
        """Return the key.

        Raises:
            KeyRefusedError: the version isn't in the file, or it was wrapped for another context.
        """
        cipher = self._cipher(wrapped.version)
        key = SecretBuffer(32)
        if len(wrapped.blob) == _BLOB:
            nonce, sealed = wrapped.blob[:_NONCE], wrapped.blob[_NONCE:]
            try:
                cipher.decrypt_into(nonce, sealed, context, key.view)
            except InvalidTag:
                pass  # refused below, like a wrong size
            else:
                return key
        key.close()
        raise KeyRefusedError(
            f"the wrapped key doesn't belong to this package and to version {wrapped.version!a}"
            " of the key-encryption key"
        )

    def current_version(self) -> str:
        """Return the version on the file's last line."""
        return next(reversed(self._keys))

    def health(self) -> None:
        """Check that the file is still there and holds the version that wraps.

        Raises:
            KeyUnavailableError: it isn't, or doesn't.
        """
        try:
            keys = keyfile.read(self._path)
        except ConfigurationError as error:
            raise KeyUnavailableError(error.message) from error
        for key in keys.values():
            key.close()
        if self.current_version() not in keys:
            raise KeyUnavailableError(f"key file {self._path} was replaced by another one")

    def close(self) -> None:
        """Wipe every key."""
        for key in self._keys.values():
            key.close()

    def _cipher(self, version: str) -> AESGCM:
        if version not in self._keys:
            raise KeyRefusedError(
                f"key file {self._path} has no version {version[:20]!a}: was it replaced?"
            )
        return AESGCM(self._keys[version].view)
