"""Key-encryption keys in a file of the daemon's: the embedded default.

A wrapped key is a 12-byte random nonce, then AES-256-GCM of the key with the context as associated
data: 60 bytes.
"""

from __future__ import annotations

import contextlib
import os
import threading
from pathlib import Path
from typing import TYPE_CHECKING, Final, Self

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

from sealcar.errors import ConfigurationError, KeyRefusedError, KeyUnavailableError
from sealcar_server.keys import key_store
from sealcar_server.keys.provider import KekDescription, WrappedKey
from sealcar_server.sealing.secret import SecretBuffer

if TYPE_CHECKING:
    from sealcar_server.keys.source import KeySource

_NONCE: Final = 12
_BLOB: Final = _NONCE + 32 + 16


def provider_of(source: KeySource) -> FileProvider:
    """Make a provider for `file:PATH`, or for the file that a credential is.

    Raises:
        ConfigurationError: not such a file, or one that others can read.
        KeyRefusedError: the passphrase is another one.
        KeyUnavailableError: it can't be read.
    """
    return FileProvider(Path(source.uri.address), source.secret)


class FileProvider:
    """A `KeyProvider` over one key file, read once.

    Args:
        path: of the file, of mode 0600 and owned by the daemon or root.
        secret: file with the passphrase that the keys are under, if they are.

    Raises:
        ConfigurationError: not such a file.
        KeyRefusedError: the passphrase is another one.
        KeyUnavailableError: it can't be read.
    """

    kind: Final = "file"

    def __init__(self, path: Path, secret: Path | None = None) -> None:
        self._path, self._secret = path, secret
        self._lock = threading.Lock()
        self._file = key_store.read(path, secret)

    @classmethod
    def create(cls, path: Path, secret: Path | None = None) -> Self:
        """Make the file with one new key.

        Raises:
            AlreadyExistsError: there is one; it is never replaced.
            ConfigurationError: the passphrase is short, or others can read it.
            KeyUnavailableError: the passphrase can't be read.
            StorageError: it can't be written.
        """
        key_store.create(path, secret)
        return cls(path, secret)

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

    def rewrap(self, wrapped: WrappedKey, context: bytes) -> WrappedKey:
        """Return the same key under the newest version.

        Raises:
            KeyRefusedError: the version isn't in the file, or it was wrapped for another context.
        """
        with self.unwrap(wrapped, context) as key:
            return self.wrap(key, context)

    def rotate(self) -> str:
        """Give the file one version more, and wrap with that from now on.

        Raises:
            ConflictError: somebody else is doing it.
            ConfigurationError, KeyRefusedError, KeyUnavailableError, StorageError: it can't be
                written; the old version goes on wrapping.
        """
        version = key_store.add_version(self._path, self._secret)
        self.health()
        return version

    def current_version(self) -> str:
        """Return the version on the file's last line."""
        return tuple(self._file.keys)[-1]

    def describe(self) -> KekDescription:
        """Say where the file is and what is in it."""
        versions = tuple(self._file.keys)
        return KekDescription(self.kind, str(self._path), versions[-1], versions)

    def health(self) -> None:
        """Check that the file is still there and holds the version that wraps.

        If it has changed, what it holds now counts from here on.

        Raises:
            KeyUnavailableError: it isn't, or doesn't.
        """
        try:
            if key_store.unchanged(self._path, self._file.digest):
                return
            now = key_store.read(self._path, self._secret)
        except (ConfigurationError, KeyRefusedError) as error:
            raise KeyUnavailableError(error.message) from error
        if self.current_version() not in now.keys:
            now.close()
            raise KeyUnavailableError(
                "the key file was replaced by another one: put back the one that it was"
            )
        with self._lock:
            self._file, old = now, self._file
            old.close()

    def close(self) -> None:
        """Wipe every key."""
        with self._lock:
            self._file.close()

    def _cipher(self, version: str) -> AESGCM:
        if version not in self._file.keys:
            # another daemon of this store may have given the file one version more
            with contextlib.suppress(KeyUnavailableError):
                self.health()
        with self._lock:
            if version in self._file.keys:
                return AESGCM(self._file.keys[version].view)
        raise KeyRefusedError(f"the key file has no version {version[:20]!a}: was it replaced?")
