"""A recipient's key pair: what a package's key is wrapped for when it goes to somebody else.

The public half wraps, the private half unwraps: RSA by OAEP with SHA-256, whose label is the
context; P-256 and X25519 by HPKE (RFC 9180) with HKDF-SHA256 and AES-256-GCM, whose info it is.

Whoever has the public half can wrap. So it vouches for nothing, and opens nothing in a store: only
the contexts of packages in transit are served.
"""

from __future__ import annotations

import hmac
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Final, Protocol, cast

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.asymmetric import rsa

from sealcar.errors import KeyRefusedError, RuntimeSupportError
from sealcar_server.keys import private_file
from sealcar_server.keys.key_pairs import (
    KeyHalf,
    fingerprint,
    oaep,
    private_key,
    public_key,
    suite_of,
)
from sealcar_server.keys.provider import TRANSIT, KekDescription, WrappedKey
from sealcar_server.sealing.secret import SecretBuffer

if TYPE_CHECKING:
    from sealcar_server.keys.key_pairs import Public
    from sealcar_server.keys.source import KeySource

KIND: Final = "recipient"
_KEY: Final = 32
_MOST: Final = 64 << 10
_PARAMETERS: Final = ("token", "serial", "object", "module-path")  # of a token
_PRIVATE: Final = b"PRIVATE KEY-----"


class Half(Protocol):
    """A private half, wherever it is."""

    def open(self, blob: bytes, context: bytes) -> bytes:
        """Return what is wrapped.

        Raises:
            ValueError, InvalidTag: it was wrapped for another key, or another context.
            KeyRefusedError, KeyUnavailableError: whatever holds the key does.
        """

    def close(self) -> None:
        """Let it go."""


def provider_of(source: KeySource) -> RecipientProvider:
    """Make a provider for `recipient:PATH`: a PEM file with either half.

    With parameters it is the public one, and the private one is in a PKCS#11 token.

    Raises:
        ConfigurationError: it holds no such key, or a private one that others can read.
        KeyUnavailableError: it can't be read.
        RuntimeSupportError: what speaks to tokens isn't installed.
    """
    path = Path(source.uri.address)
    source.uri.allow(_PARAMETERS)
    with private_file.read_public(path, "recipient's key", most=_MOST) as text:
        is_private = _PRIVATE in bytes(text.view)
        if source.uri.parameters or not is_private:
            public = public_key(bytes(text.view), str(path))
            half = _token_half(source, public) if source.uri.parameters else None
            return RecipientProvider(public, half, str(path))
    with private_file.read(path, "private key", least=1, most=_MOST) as text:
        private = private_key(text, source.secret, path)
    return RecipientProvider(private.public_key(), KeyHalf(private), str(path))


def _token_half(source: KeySource, public: Public) -> Half:
    try:
        module = import_module("sealcar_server.keys.recipient_token")
    except ModuleNotFoundError as error:
        raise RuntimeSupportError(
            f"keys in tokens need {error.name}, which isn't installed; "
            "remedy: pip install 'sealcar[pkcs11]'"
        ) from error
    return cast("Half", module.half_of(source, public))


class RecipientProvider:
    """A `KeyProvider` over one key pair, or over its public half.

    Args:
        public: wraps.
        private: unwraps; None where only the public half is known.
        place: where it came from.
    """

    kind: Final = KIND

    def __init__(self, public: Public, private: Half | None, place: str) -> None:
        self._public, self._private, self._place = public, private, place
        self._version = fingerprint(public)

    @property
    def opens(self) -> bool:
        """Whether the private half is known here."""
        return self._private is not None

    def wrap(self, key: SecretBuffer, context: bytes) -> WrappedKey:
        """Wrap a key for a package in transit.

        Raises:
            KeyRefusedError: the context is another one's, or the key is one that no pair has.
        """
        _refuse_others(context)
        plain = bytes(key.view)
        try:
            if isinstance(self._public, rsa.RSAPublicKey):
                blob = self._public.encrypt(plain, oaep(context))
            else:
                blob = suite_of(self._public).encrypt(plain, self._public, info=context)
        except ValueError as error:
            raise KeyRefusedError("the recipient's key is one that nobody can use") from error
        return WrappedKey(self._version, blob)

    def unwrap(self, wrapped: WrappedKey, context: bytes) -> SecretBuffer:
        """Return the key of a package in transit.

        Raises:
            KeyRefusedError: there is no private half here, it was wrapped for another key or
                package, or the context is another one's.
            KeyUnavailableError: the private half is elsewhere, and can't be reached.
        """
        _refuse_others(context)
        if self._private is None:
            raise KeyRefusedError("the recipient's is a public key: it opens nothing")
        if wrapped.version != self._version:
            raise KeyRefusedError("the package's key is wrapped for another recipient")
        try:
            plain = self._private.open(wrapped.blob, context)
        except (InvalidTag, ValueError):
            plain = b""  # refused below, like a wrong size
        if len(plain) != _KEY:
            raise KeyRefusedError("the wrapped key doesn't belong to this package and recipient")
        return SecretBuffer.copy_of(plain)

    def rewrap(self, wrapped: WrappedKey, context: bytes) -> WrappedKey:
        """Return the same key anew; raises as `unwrap`."""
        with self.unwrap(wrapped, context) as key:
            return self.wrap(key, context)

    def current_version(self) -> str:
        """Return the fingerprint of the public half."""
        return self._version

    def describe(self) -> KekDescription:
        """Say where the key came from."""
        half = "" if self._private else " (public half)"
        return KekDescription(self.kind, self._place + half, self._version, (self._version,))

    def health(self) -> None:
        """Have the private half open something: a token may hold another key, or open nothing.

        Raises:
            KeyRefusedError: it isn't the one that belongs to the public half, or can't open.
            KeyUnavailableError: it is elsewhere, and can't be reached.
        """
        if self._private is None:
            return
        with SecretBuffer.random(_KEY) as key, self.unwrap(self.wrap(key, TRANSIT), TRANSIT) as got:
            if not hmac.compare_digest(key.view, got.view):
                raise KeyRefusedError(f"{self._place}: the private half opens something else")

    def close(self) -> None:
        """Let the private half go."""
        private, self._private = self._private, None
        if private is not None:
            private.close()


def _refuse_others(context: bytes) -> None:
    if not context.startswith(TRANSIT):
        raise KeyRefusedError("a recipient's key is for packages in transit, never for a store")
