"""Key pairs of recipients: PEM files, and what their private halves open."""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING, Final, TypeAlias

from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec, padding, rsa, x25519
from cryptography.hazmat.primitives.hpke import AEAD, KDF, KEM, Suite

from sealcar.errors import ConfigurationError
from sealcar_server.keys import private_file

if TYPE_CHECKING:
    from pathlib import Path

    from sealcar_server.sealing.secret import SecretBuffer

_LEAST_RSA: Final = 2048  # bits
_MOST_RSA: Final = 8192
# TypeError: a passphrase is missing, or not wanted
_NOT_A_KEY: Final = (TypeError, ValueError, UnsupportedAlgorithm)

Public: TypeAlias = rsa.RSAPublicKey | ec.EllipticCurvePublicKey | x25519.X25519PublicKey
Private: TypeAlias = rsa.RSAPrivateKey | ec.EllipticCurvePrivateKey | x25519.X25519PrivateKey


class KeyHalf:
    """A private key in this process."""

    def __init__(self, key: Private) -> None:
        self._key = key

    def open(self, blob: bytes, context: bytes) -> bytes:
        """Return what is wrapped; ValueError or InvalidTag."""
        if isinstance(self._key, rsa.RSAPrivateKey):
            return self._key.decrypt(blob, oaep(context))
        return suite_of(self._key.public_key()).decrypt(blob, self._key, info=context)

    def close(self) -> None:
        """OpenSSL wipes it when it is freed."""


def public_key(text: bytes, what: str) -> Public:
    """Return a recipient's public key.

    Raises:
        ConfigurationError: it isn't PEM of an RSA key of 2048 to 8192 bits, P-256 or X25519.
    """
    try:
        key = serialization.load_pem_public_key(text)
    except _NOT_A_KEY as error:
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


def private_key(text: SecretBuffer, secret: Path | None, path: Path) -> Private:
    """Return a recipient's private key.

    Args:
        text: the file's content, PEM.
        secret: file with its passphrase, if it is under one.
        path: of the file.

    Raises:
        ConfigurationError: it holds no such key, or the passphrase is another one.
        KeyUnavailableError: the passphrase can't be read.
    """
    passphrase = None
    if secret is not None:
        with private_file.read_secret(secret, "passphrase") as found:
            passphrase = bytes(found.view)
    try:
        key = serialization.load_pem_private_key(bytes(text.view), passphrase)
    except _NOT_A_KEY as error:
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


def oaep(context: bytes) -> padding.OAEP:
    """Return how RSA wraps for a context."""
    sha256 = hashes.SHA256()
    return padding.OAEP(padding.MGF1(sha256), sha256, label=context)


def suite_of(key: ec.EllipticCurvePublicKey | x25519.X25519PublicKey) -> Suite:
    """Return how HPKE wraps for a key."""
    kem = KEM.X25519 if isinstance(key, x25519.X25519PublicKey) else KEM.P256
    return Suite(kem, KDF.HKDF_SHA256, AEAD.AES_256_GCM)
