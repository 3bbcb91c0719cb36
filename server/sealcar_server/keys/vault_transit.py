"""Key-encryption keys in the transit engine of Vault or OpenBao.

The key must be a derived one: only then does the server bind a wrapped key to its context, and
only then can it rewrap. A version is the server's number; a wrapped key is its ciphertext's bytes.
"""

from __future__ import annotations

import base64
import binascii
import re
import threading
from typing import TYPE_CHECKING, Any, Final, TypeVar

from sealcar.errors import ConfigurationError, KeyRefusedError, KeyUnavailableError
from sealcar_server.keys.bounded import Bounded
from sealcar_server.keys.provider import KekDescription, WrappedKey
from sealcar_server.keys.vault_client import TransitClient, TransitKey, key_of
from sealcar_server.sealing.secret import SecretBuffer

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from sealcar_server.keys.source import KeySource

T = TypeVar("T")
_KEY: Final = 32
_CIPHERTEXT: Final = re.compile(r"vault:v([1-9][0-9]{0,8}):([A-Za-z0-9+/]+={0,2})")
_VERSION: Final = re.compile(r"[1-9][0-9]{0,8}")


def provider_of(source: KeySource) -> TransitProvider:
    """Make a provider for `vault:URL/MOUNT/KEY`.

    Raises:
        ConfigurationError: not such a URI, or no token.
    """
    if source.secret is None:
        raise ConfigurationError('vault: needs a token: name its file with secret = "file:PATH"')
    return TransitProvider(key_of(source.uri), source.secret, source.timeout)


class TransitProvider:
    """A `KeyProvider` over one derived key of a transit engine.

    Args:
        key: where it is.
        token: file with the token.
        timeout: seconds that a call may take.
    """

    kind: Final = "vault"

    def __init__(self, key: TransitKey, token: Path, timeout: float) -> None:
        self._place = str(key)
        self._client = TransitClient(key, token, timeout)
        self._bounded = Bounded(self._place, timeout)
        self._lock = threading.Lock()
        self._known: KekDescription | None = None

    def wrap(self, key: SecretBuffer, context: bytes) -> WrappedKey:
        """Have the server encrypt a key.

        Raises:
            KeyRefusedError, KeyUnavailableError: the server does.
        """
        plain = base64.b64encode(key.view).decode()
        return self._ask(
            lambda: self._wrapped("encrypt_data", plaintext=plain, context=_encoded(context))
        )

    def unwrap(self, wrapped: WrappedKey, context: bytes) -> SecretBuffer:
        """Have the server decrypt a key.

        Raises:
            KeyRefusedError: the server refuses, or it was wrapped for another context.
            KeyUnavailableError: the server doesn't answer.
        """
        ciphertext = self._ciphertext(wrapped)

        def decrypt() -> SecretBuffer:
            answer = self._client.call(
                "decrypt_data", ciphertext=ciphertext, context=_encoded(context)
            )
            return self._key_in(answer)

        return self._ask(decrypt)

    def rewrap(self, wrapped: WrappedKey, context: bytes) -> WrappedKey:
        """Have the server encrypt a key under its newest version; it never leaves the server.

        Raises:
            KeyRefusedError: the server refuses, or it was wrapped for another context.
            KeyUnavailableError: the server doesn't answer.
        """
        ciphertext = self._ciphertext(wrapped)
        return self._ask(
            lambda: self._wrapped("rewrap_data", ciphertext=ciphertext, context=_encoded(context))
        )

    def current_version(self) -> str:
        """Ask the server for the newest version.

        Raises:
            KeyRefusedError, KeyUnavailableError: the server does, or doesn't answer.
        """
        return self._bounded(self._look_up).version

    def describe(self) -> KekDescription:
        """Say which key it is, and what was seen of it last."""
        return self._ask(self._checked)

    def health(self) -> None:
        """Ask the server for the key.

        Raises:
            KeyRefusedError: it is gone, of a kind that doesn't protect, or the token's right is.
            KeyUnavailableError: the server is sealed, or doesn't answer.
        """
        self._bounded(self._look_up)

    def close(self) -> None:
        """Close the connections and forget the token."""
        self._client.close()

    def _ask(self, act: Callable[[], T]) -> T:
        def checked() -> T:
            self._checked()
            return act()

        return self._bounded(checked)

    def _checked(self) -> KekDescription:
        # the server ignores the context of a key that isn't derived: so none is used unchecked
        with self._lock:
            known = self._known
        return known or self._look_up()

    def _look_up(self) -> KekDescription:
        found = self._client.call("read_key")
        if found.get("derived") is not True:
            raise KeyRefusedError(
                f"{self._place}: isn't a derived key, so it wouldn't bind a wrapped key to its "
                "package; make one with derived=true"
            )
        if found.get("exportable") or found.get("allow_plaintext_backup"):
            raise KeyRefusedError(f"{self._place}: is exportable; make one that isn't")
        try:
            newest, oldest = int(found["latest_version"]), int(found["min_decryption_version"])
        except (KeyError, TypeError, ValueError):
            raise KeyUnavailableError(f"{self._place}: the server's answer is none") from None
        versions = tuple(str(number) for number in range(max(oldest, 1), newest + 1))
        known = KekDescription(self.kind, self._place, str(newest), versions)
        with self._lock:
            self._known = known
        return known

    def _wrapped(self, method: str, **arguments: str) -> WrappedKey:
        answer = self._client.call(method, **arguments)
        match = _CIPHERTEXT.fullmatch(str(answer.get("ciphertext")))
        if not match:
            raise KeyUnavailableError(f"{self._place}: the server's answer is no ciphertext")
        with self._lock:
            if self._known and self._known.version != match[1]:
                self._known = None  # the key was rotated
        return WrappedKey(match[1], base64.b64decode(match[2]))

    def _ciphertext(self, wrapped: WrappedKey) -> str:
        if not _VERSION.fullmatch(wrapped.version) or not wrapped.blob:
            raise KeyRefusedError(f"{self._place}: there is no version {wrapped.version[:20]!a}")
        return f"vault:v{wrapped.version}:{_encoded(wrapped.blob)}"

    def _key_in(self, answer: dict[str, Any]) -> SecretBuffer:
        try:
            plain = base64.b64decode(answer["plaintext"], validate=True)
        except (KeyError, TypeError, binascii.Error):
            raise KeyUnavailableError(f"{self._place}: the server's answer is no key") from None
        if len(plain) != _KEY:
            raise KeyRefusedError(f"{self._place}: what was wrapped is no key of ours")
        return SecretBuffer.copy_of(plain)


def _encoded(data: bytes) -> str:
    return base64.b64encode(data).decode()
