"""A recipient's key pair: what a package's key is wrapped for when it goes to somebody else.

The public half wraps, the private half unwraps: RSA by OAEP with SHA-256, whose label is the
context; P-256 and X25519 by HPKE (RFC 9180) with HKDF-SHA256 and AES-256-GCM, whose info it is.

Whoever has the public half can wrap. So it vouches for nothing, and opens nothing in a store: only
the contexts of packages in transit are served.
"""

from __future__ import annotations

import hashlib
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Final, Protocol, TypeAlias, cast

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec, padding, rsa, x25519
from cryptography.hazmat.primitives.hpke import AEAD, KDF, KEM, Suite

from sealcar.errors import ConfigurationError, KeyRefusedError, RuntimeSupportError
from sealcar_server.keys import private_file
from sealcar_server.keys.provider import TRANSIT, KekDescription, WrappedKey
from sealcar_server.sealing.secret import SecretBuffer

if TYPE_CHECKING:
    from sealcar_server.keys.source import KeySource

KIND: Final = "recipient"
_KEY: Final = 32
_LEAST_RSA, _MOST_RSA = 2048, 8192  # bits
_MOST: Final = 64 << 10
_PARAMETERS: Final = ("token", "serial", "object", "module-path")  # of a token
_PRIVATE: Final = b"PRIVATE KEY-----"

Public: TypeAlias = rsa.RSAPublicKey | ec.EllipticCurvePublicKey | x25519.X25519PublicKey
Private: TypeAlias = rsa.RSAPrivateKey | ec.EllipticCurvePrivateKey | x25519.X25519PrivateKey


class Half(Protocol):
    """A private half, wherever it is."""

    def open(self, blob: bytes, context: bytes) -> bytes:
        """Return what is wrapped.

        Raises:
            ValueError, InvalidTag: it was wrapped for another key, or another context.
            KeyRefusedError, KeyUnavailableError: whatever holds the key does.
        """

    def health(self) -> None:
        """Return if it would open now; raises as `open`."""

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
        private = _private_key(text, source.secret, path)
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


class KeyHalf:
    """A private key in this process."""

    def __init__(self, key: Private) -> None:
        self._key = key

    def open(self, blob: bytes, context: bytes) -> bytes:
        """Return what is wrapped; ValueError or InvalidTag."""
        if isinstance(self._key, rsa.RSAPrivateKey):
            return self._key.decrypt(blob, _oaep(context))
        return _suite(self._key.public_key()).decrypt(blob, self._key, info=context)

    def health(self) -> None:
        """It was read when the daemon started, and that is all it takes."""

    def close(self) -> None:
        """OpenSSL wipes it when it is freed."""


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

    def wrap(self, key: SecretBuffer, context: bytes) -> WrappedKey:
        """Wrap a key for a package in transit.

        Raises:
            KeyRefusedError: the context is another one's, or the key is one that no pair has.
        """
        _refuse_others(context)
        plain = bytes(key.view)
        try:
            if isinstance(self._public, rsa.RSAPublicKey):
                blob = self._public.encrypt(plain, _oaep(context))
            else:
                blob = _suite(self._public).encrypt(plain, self._public, info=context)
        except ValueError as error:
            raise KeyRefusedError(f"{self._place} is a key that nobody can use") from error
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
            raise KeyRefusedError(f"{self._place} is a public key: it opens nothing")
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
        """Ask whatever holds the private half.

        Raises:
            KeyRefusedError, KeyUnavailableError: it wouldn't open.
        """
        if self._private is not None:
            self._private.health()

    def close(self) -> None:
        """Let the private half go."""
        private, self._private = self._private, None
        if private is not None:
            private.close()


def public_key(text: bytes, what: str) -> Public:
    """Return a recipient's public key.

    Raises:
        ConfigurationError: it isn't PEM of an RSA key of 2048 to 8192 bits, P-256 or X25519.
    """
    try:
        key = serialization.load_pem_public_key(text)
    except Exception as error:
        raise ConfigurationError(f"{what} is no PEM file with a public key") from error
    if isinstance(key, rsa.RSAPublicKey | ec.EllipticCurvePublicKey | x25519.X25519PublicKey):
        _check(key, what)
        return key
    raise _unfit(what)


def fingerprint(public: Public) -> str:
    """Return "sha256:" and the SHA-256 of a public key's SubjectPublicKeyInfo."""
    encoded = public.public_bytes(
        serialization.Encoding.DER, serialization.PublicFormat.SubjectPublicKeyInfo
    )
    return f"sha256:{hashlib.sha256(encoded).hexdigest()}"


def _private_key(text: SecretBuffer, secret: Path | None, path: Path) -> Private:
    passphrase = None
    if secret is not None:
        with private_file.read_secret(secret, "passphrase") as found:
            passphrase = bytes(found.view)
    try:
        key = serialization.load_pem_private_key(bytes(text.view), passphrase)
    except Exception as error:
        raise ConfigurationError(
            f"{path} is no PEM file with a private key, or its passphrase is another one"
        ) from error
    if isinstance(key, rsa.RSAPrivateKey | ec.EllipticCurvePrivateKey | x25519.X25519PrivateKey):
        _check(key.public_key(), str(path))
        return key
    raise _unfit(str(path))


def _check(key: Public, what: str) -> None:
    fits = True
    if isinstance(key, rsa.RSAPublicKey):
        fits = _LEAST_RSA <= key.key_size <= _MOST_RSA
    elif isinstance(key, ec.EllipticCurvePublicKey):
        fits = isinstance(key.curve, ec.SECP256R1)
    if not fits:
        raise _unfit(what)


def _unfit(what: str) -> ConfigurationError:
    return ConfigurationError(f"{what} must be RSA with 2048 to 8192 bits, P-256 or X25519")


def _refuse_others(context: bytes) -> None:
    if not context.startswith(TRANSIT):
        raise KeyRefusedError("a recipient's key is for packages in transit, never for a store")


def _oaep(context: bytes) -> padding.OAEP:
    sha256 = hashes.SHA256()
    return padding.OAEP(padding.MGF1(sha256), sha256, label=context)


def _suite(key: ec.EllipticCurvePublicKey | x25519.X25519PublicKey) -> Suite:
    kem = KEM.X25519 if isinstance(key, x25519.X25519PublicKey) else KEM.P256
    return Suite(kem, KDF.HKDF_SHA256, AEAD.AES_256_GCM)
