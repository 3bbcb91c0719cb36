"""The certificates of gRPC on TCP, out of files that others can't read or change."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Final

from cryptography import x509
from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec, rsa

from sealcar.errors import ConfigurationError, KeyUnavailableError
from sealcar_server.access.certificates import UNREADABLE, is_authority
from sealcar_server.keys import private_file

if TYPE_CHECKING:
    from pathlib import Path

_MOST: Final = 1 << 20
_MOST_KEY: Final = 64 << 10


@dataclass(frozen=True)
class Files:
    """Where they are."""

    certificate: Path
    key: Path
    client_ca: Path


@dataclass(frozen=True)
class Material:
    """What is in the files, as it is there: PEM.

    Attributes:
        certificate: the daemon's, and those that it hangs on.
        key: its private key.
        authorities: who signs the callers' certificates.
        end: when the daemon's certificate stops being good.
    """

    certificate: bytes
    key: bytes = field(repr=False)
    authorities: bytes
    end: datetime


def load(files: Files) -> Material:
    """Read and check all three.

    Raises:
        ConfigurationError: one can't be read, is for more eyes than it should be, isn't good now,
            or doesn't belong to the others.
    """
    chain = _read(files.certificate, "[tls] certificate")
    authorities = _read(files.client_ca, "[tls] client_ca")
    key = _read_key(files.key)
    own = _certificates(chain, f"[tls] certificate {files.certificate}")[0]
    _check_pair(own, key, files)
    now = datetime.now(UTC)
    if not own.not_valid_before_utc <= now < own.not_valid_after_utc:
        raise ConfigurationError(
            f"[tls] certificate {files.certificate} is good from {own.not_valid_before_utc:%F %T}"
            f" to {own.not_valid_after_utc:%F %T} UTC, which isn't now; put a new one there"
        )
    _check_authorities(_certificates(authorities, f"[tls] client_ca {files.client_ca}"), files, now)
    return Material(chain, key, authorities, own.not_valid_after_utc)


def _read(path: Path, what: str) -> bytes:
    try:
        with private_file.read_public(path, what, most=_MOST) as content:
            return bytes(content.view)
    except KeyUnavailableError as error:
        raise ConfigurationError(error.message) from error


def _read_key(path: Path) -> bytes:
    try:
        # gRPC keeps copies of its own, so locked memory would be no use
        with private_file.read(path, "[tls] key", least=1, most=_MOST_KEY) as content:
            return bytes(content.view)
    except KeyUnavailableError as error:
        raise ConfigurationError(error.message) from error


def _certificates(pem: bytes, place: str) -> list[x509.Certificate]:
    try:
        return x509.load_pem_x509_certificates(pem)
    except UNREADABLE as error:
        raise ConfigurationError(f"{place} holds no certificate in PEM") from error


def _check_pair(certificate: x509.Certificate, pem: bytes, files: Files) -> None:
    place = f"[tls] key {files.key}"
    try:
        key = serialization.load_pem_private_key(pem, None)
    except TypeError as error:
        raise ConfigurationError(f"{place} is encrypted; it must not be") from error
    except (ValueError, UnsupportedAlgorithm) as error:
        raise ConfigurationError(f"{place} holds no private key in PEM") from error
    if not isinstance(key, (rsa.RSAPrivateKey, ec.EllipticCurvePrivateKey)):
        raise ConfigurationError(
            f"{place} must be a key for RSA or an elliptic curve such as P-256"
        )
    try:
        belongs = key.public_key() == certificate.public_key()
    except (ValueError, UnsupportedAlgorithm):
        belongs = False  # it is of a kind that nobody here knows
    if not belongs:
        raise ConfigurationError(f"{place} doesn't belong to the certificate {files.certificate}")


def _check_authorities(found: list[x509.Certificate], files: Files, now: datetime) -> None:
    place = f"[tls] client_ca {files.client_ca}"
    for certificate in found:
        try:
            authority = is_authority(certificate)
        except UNREADABLE as error:
            raise ConfigurationError(f"{place} holds a certificate that can't be read") from error
        if not authority:
            raise ConfigurationError(f"{place} holds a certificate that is no authority's")
    if all(certificate.not_valid_after_utc <= now for certificate in found):
        raise ConfigurationError(f"{place} holds no certificate that is good now")
