"""Workload identities: SPIFFE IDs, alone, as patterns, and in certificates.

An ID is `spiffe://TRUST-DOMAIN/PATH`. A certificate that TLS has verified names exactly one, as its
only URI; it says nothing else that counts here: no common name, no host name.
"""

from __future__ import annotations

import functools
import re
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Final

from cryptography import x509

from sealcar.errors import DeniedError
from sealcar.names import shown

_SCHEME: Final = "spiffe://"
_MOST: Final = 2048  # bytes of an ID, by the standard
_DOMAIN: Final = re.compile(r"[a-z0-9._-]{1,255}")
_SEGMENT: Final = re.compile(r"[A-Za-z0-9._-]+")
_REMEMBERED: Final = 1024
ANY: Final = "/*"


def is_domain(text: str) -> bool:
    """Tell whether this names a trust domain."""
    return _DOMAIN.fullmatch(text) is not None


def is_id(text: str) -> bool:
    """Tell whether this is the ID of a workload: one with a path."""
    domain, slash, path = text.removeprefix(_SCHEME).partition("/")
    return (
        text.startswith(_SCHEME)
        and len(text) <= _MOST
        and bool(slash)
        and is_domain(domain)
        and all(_is_segment(part) for part in path.split("/"))
    )


def is_pattern(text: str) -> bool:
    """Tell whether this is an ID, or the beginning of some with `/*` behind it."""
    if not text.endswith(ANY):
        return is_id(text)
    start = text.removesuffix(ANY)
    return is_id(start) or (start.startswith(_SCHEME) and is_domain(domain_of(start)))


def domain_of(text: str) -> str:
    """Return the trust domain of an ID or pattern."""
    return text.removeprefix(_SCHEME).partition("/")[0]


def matches(pattern: str, spiffe: str) -> bool:
    """Tell whether an ID is the one that a pattern names, or below it."""
    if pattern.endswith(ANY):
        return spiffe.startswith(pattern.removesuffix("*"))
    return spiffe == pattern


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
        authority = _is_authority(parsed)
    except (ValueError, x509.DuplicateExtension, x509.UnsupportedGeneralNameType) as error:
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


def _is_authority(certificate: x509.Certificate) -> bool:
    try:
        return certificate.extensions.get_extension_for_class(x509.BasicConstraints).value.ca
    except x509.ExtensionNotFound:
        return False


def _is_segment(text: str) -> bool:
    return _SEGMENT.fullmatch(text) is not None and text not in (".", "..")
