"""Kinds of values that a setting can have: what is allowed, and how it is read.

A kind reads a TOML value and the text of an environment variable or flag alike. What it can't read
raises ValueError with what is wrong; whoever reads settings adds the place and what is allowed.
"""

from __future__ import annotations

import difflib
import grp
import math
import os
import re
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Final, Generic, TypeVar

from sealcar.address import Address as Package
from sealcar.errors import ConfigurationError, SealcarError
from sealcar.names import shown
from sealcar_server import sizes
from sealcar_server.access.spiffe import is_domain
from sealcar_server.keys.registry import schemes
from sealcar_server.keys.source import FILES, RECIPIENT, KeyUri, parse

if TYPE_CHECKING:
    from collections.abc import Callable

T = TypeVar("T")
_DURATION: Final = re.compile(r"(\d{1,9}(?:\.\d{1,3})?)\s*(ms|s|min|h|d)?")
_SECONDS: Final = {"ms": 0.001, "": 1, "s": 1, "min": 60, "h": 3600, "d": 86400}
_MODE: Final = re.compile(r"0?[0-7]{3}")
_ADDRESS: Final = re.compile(r"(?P<host>[A-Za-z0-9.-]+|\[[0-9A-Fa-f:.]+\]):(?P<port>\d{1,5})")
# no user and no password: they would be a secret in plain settings
_ENDPOINT: Final = re.compile(
    r"https?://(?:[A-Za-z0-9.-]+|\[[0-9A-Fa-f:.]+\])(?::[1-9]\d{0,3}|:[1-5]\d{4}|:6[0-4]\d{3})?"
    r"(?:/[A-Za-z0-9._~/-]*)?"
)
_MAX_PORT: Final = 65535


@dataclass(frozen=True)
class Kind(Generic[T]):
    """One kind of value.

    Attributes:
        allowed: for messages, completes "must be".
        read: makes the value from what was written and the directory that relative paths are of.
        written: writes a value as it stands in a file, without quotes.
    """

    allowed: str
    read: Callable[[object, Path], T]
    written: Callable[[T], str] = str


@dataclass(frozen=True)
class Address:
    """Where to listen on TCP. Port 0: any that is free."""

    host: str
    port: int

    def __str__(self) -> str:
        """Render as host:port."""
        return f"{self.host}:{self.port}"


def choice(*values: str) -> Kind[str]:
    """One of these words."""

    def read(value: object, _base: Path) -> str:
        if not isinstance(value, str) or value not in values:
            raise ValueError(f"{shown(value)} is not one of them")
        return value

    return Kind("one of: " + ", ".join(values), read)


def boolean() -> Kind[bool]:
    """Yes or no."""

    def read(value: object, _base: Path) -> bool:
        found = {True: True, False: False, "true": True, "false": False}
        if not isinstance(value, (bool, str)) or value not in found:
            raise ValueError(f"{shown(value)} is neither")
        return found[value]

    return Kind("true or false", read)


def number(lowest: int, highest: int) -> Kind[int]:
    """A whole number in a range."""

    def read(value: object, _base: Path) -> int:
        if isinstance(value, str) and re.fullmatch(r"\d{1,9}", value):
            value = int(value)
        if not isinstance(value, int) or isinstance(value, bool):
            raise ValueError(f"{shown(value)} is not a whole number")  # noqa: TRY004  (the reader's one error)
        if not lowest <= value <= highest:
            raise ValueError(f"{value} is out of range")
        return value

    return Kind(f"a whole number from {lowest} to {highest}", read)


def size(lowest: int) -> Kind[int]:
    """Bytes, with an optional binary unit."""

    def read(value: object, _base: Path) -> int:
        total = sizes.read(_text(value))
        if total is None:
            raise ValueError(f"{shown(value)} is not a size")
        if total < lowest:
            raise ValueError(f"{shown(value)} is too small")
        return total

    return Kind(f'bytes, or text such as "256MiB"; at least {lowest}', read, sizes.written)


def duration(lowest: float, highest: float) -> Kind[float]:
    """Seconds, or text with a unit."""

    def read(value: object, _base: Path) -> float:
        match = _DURATION.fullmatch(_text(value))
        if not match:
            raise ValueError(f"{shown(value)} is not a time")
        seconds = float(match[1]) * _SECONDS[match[2] or ""]
        if not (math.isfinite(seconds) and lowest <= seconds <= highest):
            raise ValueError(f"{shown(value)} is out of range")
        return seconds

    allowed = f'seconds from {lowest:g} to {highest:g}, or text such as "5min"'
    return Kind(allowed, read, lambda seconds: f"{seconds:g}")


def path() -> Kind[Path]:
    """A path; a relative one is of the settings file's directory, elsewhere of the current one."""

    def read(value: object, base: Path) -> Path:
        if not isinstance(value, str) or not value or "\0" in value:
            raise ValueError(f"{shown(value)} is not a path")
        return Path(os.path.normpath(base / value))

    return Kind("a path", read)


def paths() -> Kind[tuple[Path, ...]]:
    """Any number of paths; in the environment and in flags with colons between them."""

    def read(value: object, base: Path) -> tuple[Path, ...]:
        if isinstance(value, str):
            value = [part for part in value.split(":") if part]
        if not isinstance(value, list):
            raise ValueError(f"{shown(value)} is no list")  # noqa: TRY004  (the reader's one error)
        return tuple(path().read(one, base) for one in value)

    return Kind('a list of paths, or text such as "/a:/b"', read)


def packages() -> Kind[tuple[Package, ...]]:
    """Any number of packages, or parts of them; in the environment and in flags with commas."""

    def read(value: object, _base: Path) -> tuple[Package, ...]:
        if isinstance(value, str):
            value = [part.strip() for part in value.split(",") if part.strip()]
        if not isinstance(value, list):
            raise ValueError(f"{shown(value)} is no list")  # noqa: TRY004  (the reader's one error)
        return tuple(map(_package, value))

    return Kind('a list of NAME[@VERSION][/COMPONENT[/VARIANT]], or text such as "a,b/c"', read)


def _package(value: object) -> Package:
    try:
        found = Package.parse(_text(value))
    except SealcarError as error:
        raise ValueError(error.message) from None
    if found.payload:
        raise ValueError(f"{shown(value)} is a payload: name its variant")
    return found


def secret() -> Kind[Path]:
    """Where a secret is: a file, or a credential that systemd hands over; never the secret."""

    def read(value: object, base: Path) -> Path:
        scheme, _, rest = _text(value).partition(":")
        if scheme not in FILES or not rest:
            raise ValueError("it names no file")  # it may be the secret itself: not shown
        return _secret_file(scheme, rest, base)

    return Kind('"file:PATH", or "credential:NAME" in a systemd service', read)


def key_uri() -> Kind[KeyUri]:
    """Where a key-encryption key is. What follows the scheme is its provider's to check."""

    def read(value: object, base: Path) -> KeyUri:
        try:
            found = parse(_text(value), base)
        except ConfigurationError as error:
            raise ValueError(error.message) from None
        known = schemes()
        if found.scheme not in known:
            close = difflib.get_close_matches(found.scheme, known, n=1)
            hint = f"; did you mean {close[0]!r}?" if close else ""
            raise ValueError(f"{shown(found.scheme)} is no kind of key{hint}")
        if found.scheme in FILES:
            file = _secret_file(found.scheme, found.address, base)
            return replace(found, address=str(file))
        if found.scheme == RECIPIENT:
            return replace(found, address=str(path().read(found.address, base)))
        return found

    others = ", ".join(scheme for scheme in schemes() if scheme != "file")
    return Kind(f'"file:PATH", or a URI whose scheme is one of: {others}', read)


def _secret_file(scheme: str, name: str, base: Path) -> Path:
    if scheme == "file":
        return path().read(name, base)
    folder = os.environ.get("CREDENTIALS_DIRECTORY")
    if not folder:
        raise ValueError("$CREDENTIALS_DIRECTORY isn't set: is this a systemd service?")
    if "/" in name:
        raise ValueError(f"{shown(name)} is no credential's name")
    return path().read(name, Path(folder))


def mode() -> Kind[int]:
    """A file mode, as chmod takes it."""

    def read(value: object, _base: Path) -> int:
        if not isinstance(value, str) or not _MODE.fullmatch(value):
            raise ValueError(f"{shown(value)} is not a mode")
        return int(value, 8)

    return Kind('a mode in quotes, such as "0660"', read, lambda mode: f"{mode:04o}")


def group() -> Kind[int | None]:
    """A group of this machine by name or number."""

    def read(value: object, _base: Path) -> int | None:
        text = _text(value)
        if text.isdigit():
            return int(text)
        try:
            return grp.getgrnam(text).gr_gid
        except KeyError:
            raise ValueError(f"there is no group {shown(text)} here") from None

    return Kind("a group's name or number", read)


def address() -> Kind[Address | None]:
    """Where to listen on TCP, or not at all."""

    def read(value: object, _base: Path) -> Address | None:
        if value == "off":
            return None
        match = _ADDRESS.fullmatch(_text(value))
        if not match or int(match["port"]) > _MAX_PORT:
            raise ValueError(f"{shown(value)} is not an address")
        return Address(match["host"].strip("[]"), int(match["port"]))

    return Kind('"HOST:PORT" (port 0: any that is free), or "off"', read)


def endpoint() -> Kind[str | None]:
    """Where something is sent over HTTP, or nothing is."""

    def read(value: object, _base: Path) -> str | None:
        if value == "off":
            return None
        text = _text(value)
        if not _ENDPOINT.fullmatch(text):
            raise ValueError(f"{shown(text)} is no such address")
        return text

    return Kind('"http://HOST:PORT/PATH", or https, or "off"', read)


def trust_domain() -> Kind[str]:
    """A SPIFFE trust domain."""

    def read(value: object, _base: Path) -> str:
        if not isinstance(value, str) or not is_domain(value):
            raise ValueError(f"{shown(value)} is none")
        return value

    return Kind('a SPIFFE trust domain, such as "example.org"', read)


def _text(value: object) -> str:
    if isinstance(value, bool) or not isinstance(value, str | int | float):
        raise ValueError(f"{shown(value)} is not text")  # noqa: TRY004  (the reader's one error)
    return str(value)
