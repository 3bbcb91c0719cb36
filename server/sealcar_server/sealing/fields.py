"""Reads the fields of a record: every one named, typed, bounded, and none left over."""

from __future__ import annotations

import base64
import binascii
from typing import TYPE_CHECKING, Final, TypeVar

from sealcar.errors import InvalidNameError, NotAuthenticError, UnknownFormatError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from sealcar_server.sealing.strictjson import JsonValue

DIGEST: Final = 32
_MAX_BYTES: Final = 8192
MAX_INTEGER: Final = (1 << 63) - 1
_T = TypeVar("_T")


def b64(data: bytes) -> str:
    """Return base64url without padding."""
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode()


def unb64(text: str) -> bytes:
    """Return what `b64` encoded.

    Raises:
        NotAuthenticError: it isn't the one encoding that `b64` makes.
    """
    try:
        data = base64.urlsafe_b64decode(text + "=" * (-len(text) % 4))
    except (binascii.Error, ValueError):
        data = b""
    # the decoder skips foreign characters and spare bits; the encoder makes neither
    if b64(data) != text:
        raise NotAuthenticError("isn't base64url without padding")
    return data


class Fields:
    """One object. Each field is taken once; `end` refuses what is left.

    Args:
        value: the parsed object.
        path: its place, for messages.
        what: it stands in.

    Raises:
        NotAuthenticError: it isn't an object.
    """

    def __init__(self, value: JsonValue, path: str = "", *, what: str = "seal record") -> None:
        self._path, self._what = path, what
        if not isinstance(value, dict):
            raise self.wrong("isn't an object")
        self._left = dict(value)

    def text(self, name: str, check: Callable[[str], object] | None = None) -> str:
        """Take a string; `check` raises InvalidNameError for a bad one."""
        value = self._take(name, str)
        try:
            if check:
                check(value)
        except InvalidNameError as error:
            raise self.wrong(error.message, name) from None
        return value

    def integer(self, name: str, least: int = 0) -> int:
        """Take an integer."""
        value = self._take(name, int)
        if not least <= value <= MAX_INTEGER:
            raise self.wrong(f"must be from {least} to 2^63-1", name)
        return value

    def flag(self, name: str) -> bool:
        """Take true or false."""
        return self._take(name, bool)

    def data(self, name: str, size: int | None = None) -> bytes:
        """Take bytes, of this size if one is given."""
        try:
            value = unb64(self._take(name, str))
        except NotAuthenticError as error:
            raise self.wrong(error.message, name) from None
        if len(value) != size if size is not None else not 1 <= len(value) <= _MAX_BYTES:
            raise self.wrong(f"must not have {len(value)} bytes", name)
        return value

    def optional(self, name: str, size: int) -> bytes:
        """Take bytes that may be absent; empty if they are."""
        return self.data(name, size) if name in self._left else b""

    def has(self, name: str) -> bool:
        """Tell whether a field is there, and nobody took it."""
        return name in self._left

    def inner(self, name: str) -> Fields:
        """Take an object."""
        return self._below(self._take(name, dict), name)

    def each(self, name: str) -> Iterator[Fields]:
        """Take an array of objects."""
        for index, item in enumerate(self._take(name, list)):
            yield self._below(item, f"{name}/{index}")

    def digests(self, name: str) -> Mapping[str, bytes]:
        """Take an object whose values are all SHA-256 digests."""
        value = self._take(name, dict)
        inner = self._below(value, name)
        return {key: inner.data(key, DIGEST) for key in value}

    def end(self) -> None:
        """Refuse fields that nobody took.

        Raises:
            UnknownFormatError: there are some.
        """
        for name in self._left:
            field = ascii(f"{self._path}/{name[:60]}")
            raise UnknownFormatError(f"{self._what}: this release doesn't know {field}")

    def wrong(self, finding: str, name: str = "") -> NotAuthenticError:
        """Return the error for a field, or for the object as a whole."""
        place = ascii(f"{self._path}/{name}" if name else self._path or "/")[1:-1]
        return NotAuthenticError(f"{self._what}: {place} {finding}")

    def _below(self, value: JsonValue, step: str) -> Fields:
        return Fields(value, f"{self._path}/{step}", what=self._what)

    def _take(self, name: str, kind: type[_T]) -> _T:
        if name not in self._left:
            raise self.wrong("is missing", name)
        value: object = self._left.pop(name)
        if not isinstance(value, kind) or isinstance(value, bool) is not (kind is bool):
            raise self.wrong(f"must be {kind.__name__}", name)
        return value
