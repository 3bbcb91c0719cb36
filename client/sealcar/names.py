"""Names from outside are hostile: the rules of docs/format.md, in one place for both sides.

Every check returns the name it was given, or raises `InvalidNameError` with the rule broken.
"""

from __future__ import annotations

import re
import unicodedata
from functools import lru_cache
from typing import Final

from sealcar.errors import InvalidNameError

MAX_NAME: Final = 1000
MAX_COMPONENT: Final = 200
MAX_DEPTH: Final = 16
# what a generation's directory holds beside payloads
RESERVED: Final = frozenset({"manifest.json", "component.json", "shared_assets"})

_SHOWN: Final = 80
_KNOWN: Final = 1024  # names that were checked lately: a payload's is checked at every read
_STORE: Final = re.compile(r"[a-z0-9][a-z0-9._+-]{0,63}")
_BLOB: Final = re.compile(r"[A-Za-z0-9_-][A-Za-z0-9._-]{0,199}")


def shown(name: object) -> str:
    """Return a name for a message: control characters escaped, at most 80 characters."""
    text = ascii(name)
    return text if len(text) <= _SHOWN else f"{text[:60]}… ({len(text)} characters)"


def harmless(text: str) -> str:
    """Return a text for one line of output: what could steer a terminal is escaped."""
    return "".join(c if c.isprintable() else ascii(c)[1:-1] for c in text)


def store_name(name: str, what: str = "package name") -> str:
    """Check the name or version of a package in the store."""
    if not _STORE.fullmatch(name):
        raise InvalidNameError(f"{what} {shown(name)} must match [a-z0-9][a-z0-9._+-]{{0,63}}")
    return name


@lru_cache(_KNOWN)
def part(name: str, what: str) -> str:
    """Check one component of a path: a component's, a variant's, or a piece of a payload's name."""
    raw = _encoded(name, what)
    if not 1 <= len(raw) <= MAX_COMPONENT:
        raise InvalidNameError(f"{what} {shown(name)} must have 1 to {MAX_COMPONENT} bytes")
    if any(c in "/\\" or unicodedata.category(c) == "Cc" for c in name):
        raise InvalidNameError(f"{what} {shown(name)} must not hold /, \\ or control characters")
    if name.startswith("."):
        raise InvalidNameError(f"{what} {shown(name)} must not begin with a dot")
    if unicodedata.normalize("NFC", name) != name:
        raise InvalidNameError(f"{what} {shown(name)} must be in Unicode normal form C")
    return name


@lru_cache(_KNOWN)
def payload(name: str) -> str:
    """Check a payload's name: a relative path of 1 to 16 components, at most 1,000 bytes."""
    if len(_encoded(name, "payload name")) > MAX_NAME:
        raise InvalidNameError(f"payload name {shown(name)} must have at most {MAX_NAME} bytes")
    parts = name.split("/")
    if len(parts) > MAX_DEPTH:
        raise InvalidNameError(f"payload name {shown(name)} has over {MAX_DEPTH} components")
    for piece in parts:
        part(piece, "payload name's component")
    if parts[0].casefold() in RESERVED:
        raise InvalidNameError(f"payload name {shown(name)} is a name of the format")
    return name


def blob(name: str) -> str:
    """Check a name that an execution provider gave to a blob: one component of [A-Za-z0-9._-]."""
    if not _BLOB.fullmatch(name):
        raise InvalidNameError(f"blob name {shown(name)} must be one component of [A-Za-z0-9._-]")
    return payload(name)


def _encoded(name: str, what: str) -> bytes:
    try:
        return name.encode()
    except UnicodeEncodeError:
        raise InvalidNameError(f"{what} {shown(name)} must be UTF-8") from None
