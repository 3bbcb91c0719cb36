"""Who vouches for packages in transit: publishers, each by an Ed25519 key."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from cryptography.exceptions import InvalidSignature, UnsupportedAlgorithm
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey

from sealcar.errors import ConfigurationError, NotAuthenticError
from sealcar_server.keys import private_file
from sealcar_server.sealing.record import Signature

if TYPE_CHECKING:
    from pathlib import Path

_MOST: Final = 256 << 10
_PEM: Final = re.compile(rb"-----BEGIN PUBLIC KEY-----.*?-----END PUBLIC KEY-----", re.DOTALL)


class Signer:
    """Signs under one private key."""

    def __init__(self, key: Ed25519PrivateKey) -> None:
        self._key = key
        self._publisher = key.public_key().public_bytes_raw()

    @classmethod
    def load(cls, path: Path) -> Signer:
        """Read a PEM file.

        Raises:
            ConfigurationError: it holds no such key, or others can read it.
            KeyUnavailableError: it can't be read.
        """
        with private_file.read(path, "signing key", least=1, most=_MOST) as text:
            try:
                key = serialization.load_pem_private_key(bytes(text.view), None)
            except (ValueError, TypeError, UnsupportedAlgorithm) as error:
                raise ConfigurationError(f"{path} is no PEM file with a private key") from error
        if not isinstance(key, Ed25519PrivateKey):
            raise ConfigurationError(f"{path} must be an Ed25519 key")
        return cls(key)

    def sign(self, text: bytes) -> Signature:
        """Return the signature of a text."""
        return Signature(self._publisher, self._key.sign(text))


class Publishers:
    """Those who may vouch. Without any, whoever signed is believed to be himself, and no more.

    Args:
        known: their public keys; None: no signature is asked for.
    """

    def __init__(self, known: frozenset[bytes] | None = None) -> None:
        self._known = known

    @classmethod
    def load(cls, path: Path) -> Publishers:
        """Read a file with one or more public keys, PEM one after the other.

        Raises:
            ConfigurationError: it holds anything else, or others can change it.
            KeyUnavailableError: it can't be read.
        """
        with private_file.read_public(path, "file of publishers", most=_MOST) as text:
            found = _PEM.findall(bytes(text.view))
        keys = frozenset(_public(pem, path) for pem in found)
        if not keys:
            raise ConfigurationError(f"{path} holds no public key, PEM")
        return cls(keys)

    def check(self, signature: Signature | None, text: bytes) -> None:
        """Return if a text may be believed as far as this goes.

        Raises:
            NotAuthenticError: the signature isn't its publisher's, it is nobody's whom we know, or
                there is none though one is asked for.
        """
        if signature is None:
            if self._known is not None:
                raise NotAuthenticError("no publisher signed the package, and one has to")
            return
        if self._known is not None and signature.publisher not in self._known:
            raise NotAuthenticError("the package was signed by a publisher who isn't known here")
        try:
            key = Ed25519PublicKey.from_public_bytes(signature.publisher)
            key.verify(signature.signature, text)
        except (InvalidSignature, ValueError):
            raise NotAuthenticError("the publisher's signature isn't of this package") from None


@dataclass(frozen=True)
class Vouching:
    """Whose word counts for packages in transit.

    Attributes:
        signer: vouches for what leaves; None: nobody does.
        publishers: may vouch for what comes in.
    """

    signer: Signer | None = None
    publishers: Publishers = field(default_factory=Publishers)


def _public(pem: bytes, path: Path) -> bytes:
    try:
        key = serialization.load_pem_public_key(pem)
    except (ValueError, UnsupportedAlgorithm) as error:
        raise ConfigurationError(f"{path} holds a public key that can't be read") from error
    if not isinstance(key, Ed25519PublicKey):
        raise ConfigurationError(f"{path} must hold Ed25519 keys only")
    return key.public_bytes_raw()
