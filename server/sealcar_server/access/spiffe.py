"""SPIFFE IDs, which name workloads, and patterns of some.

An ID is `spiffe://TRUST-DOMAIN/PATH`.
"""

from __future__ import annotations

import re
from typing import Final

_SCHEME: Final = "spiffe://"
_MOST: Final = 2048  # bytes of an ID, by the standard
_DOMAIN: Final = re.compile(r"[a-z0-9._-]{1,255}")
_SEGMENT: Final = re.compile(r"[A-Za-z0-9._-]+")
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


def _is_segment(text: str) -> bool:
    return _SEGMENT.fullmatch(text) is not None and text not in (".", "..")
