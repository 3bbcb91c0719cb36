"""Who calls over TLS: what the certificate says that TLS has verified.

It names exactly one workload, as its only URI. Nothing else in it counts here: no common name, no
host name.
"""

from __future__ import annotations

import functools
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Final

from cryptography import x509

from sealcar.errors import DeniedError
from sealcar.names import shown
from sealcar_server.access.spiffe import domain_of, is_id

# what the library raises, of a certificate or at the first look at its extensions
UNREADABLE: Final = (
    ValueError,
    x509.DuplicateExtension,
    x509.InvalidVersion,
    x509.UnsupportedGeneralNameType,
)
_REMEMBERED: Final = 1024


def identity(certificate: bytes, trust_domain: str) -> str:
    """Return the ID in a certificate, PEM, that TLS has verified.

    Raises:
        DeniedError: it names no workload of this trust domain, or isn't good any more.
    """
    found = _read(certificate)
    if found.end <= datetime.now(UTC):
        # a connection can outlive the certificate that it was made with
        raise DeniedError("the caller's certificate has expired: connect again with a new one")
    if domain_of(found.spiffe) != trust_domain:
        raise DeniedError(
            f"{found.spiffe} is of another trust domain than {trust_domain}, the daemon's"
        )
    return found.spiffe


@dataclass(frozen=True)
class _Found:
    spiffe: str
    end: datetime


@functools.lru_cache(_REMEMBERED)
def _read(certificate: bytes) -> _Found:
    try:
        parsed = x509.load_pem_x509_certificate(certificate)
        uris = _uris(parsed)
        authority = is_authority(parsed)
    except UNREADABLE as error:
        raise DeniedError("the caller's certificate can't be read") from error
    if authority:
        raise DeniedError("the caller's certificate is an authority's, which is no workload's")
    if len(uris) != 1:
        raise DeniedError(
            f"the caller's certificate has {len(uris)} URIs among its names; it must have one, "
            "the caller's SPIFFE ID"
        )
    if not is_id(uris[0]):
        raise DeniedError(f"{shown(uris[0])} in the caller's certificate is no SPIFFE ID")
    return _Found(uris[0], parsed.not_valid_after_utc)


def _uris(certificate: x509.Certificate) -> list[str]:
    try:
        names = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName)
    except x509.ExtensionNotFound:
        return []
    return names.value.get_values_for_type(x509.UniformResourceIdentifier)


def is_authority(certificate: x509.Certificate) -> bool:
    """Tell whether a certificate may sign others; raises what is in `UNREADABLE`."""
    try:
        return certificate.extensions.get_extension_for_class(x509.BasicConstraints).value.ca
    except x509.ExtensionNotFound:
        return False
