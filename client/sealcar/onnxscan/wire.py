"""Protobuf's wire format, as much of it as reading ONNX takes.

A message is looked at as a span of one buffer; nothing is copied. Every length is checked against
the message that holds it before it is believed. Two things that parsers tolerate are refused,
because two parsers could take them differently: a field that occurs twice though it may occur once,
and a known field of another wire type.
"""

from __future__ import annotations

from enum import Enum
from typing import TYPE_CHECKING, Final, NamedTuple

from sealcar.errors import InvalidPackageError
from sealcar.names import shown

if TYPE_CHECKING:
    from collections.abc import Mapping

VARINT: Final = 0
FIXED64: Final = 1
LENGTH_DELIMITED: Final = 2
FIXED32: Final = 5

_MORE: Final = 0x80
_MAX_VARINT: Final = 10
_MAX_TAG: Final = 1 << 32
_SIGN: Final = 1 << 63
# real models stay far below; what lies above would only keep this process busy
MAX_FIELDS: Final = 20_000_000


class Span(NamedTuple):
    """Where something lies in the buffer: `data[start:end]`."""

    start: int
    end: int

    @property
    def size(self) -> int:
        """Bytes."""
        return self.end - self.start


class Kind(Enum):
    """What is wanted of a field."""

    INT = "one integer"
    INTS = "integers, packed or not"
    BYTES = "one string or message"
    REPEATED = "strings or messages"
    SEEN = "only whether it occurs"


class Found:
    """The wanted fields of one message."""

    def __init__(self, data: memoryview, where: str) -> None:
        self.where = where
        self._data = data
        self._numbers: dict[int, list[int]] = {}
        self._spans: dict[int, list[Span]] = {}

    def add_number(self, number: int, value: int) -> None:
        """Note an integer."""
        self._numbers.setdefault(number, []).append(value)

    def add_span(self, number: int, span: Span) -> None:
        """Note a string or message."""
        self._spans.setdefault(number, []).append(span)

    def __contains__(self, number: int) -> bool:
        return number in self._numbers or number in self._spans

    def integer(self, number: int, default: int = 0) -> int:
        """Return the one integer."""
        return self._numbers.get(number, [default])[0]

    def integers(self, number: int) -> tuple[int, ...]:
        """Return all integers, signed, in order."""
        return tuple(v - (1 << 64) if v >= _SIGN else v for v in self._numbers.get(number, ()))

    def spans(self, number: int) -> list[Span]:
        """Return where all occurrences lie, in order."""
        return self._spans.get(number, [])

    def span(self, number: int) -> Span | None:
        """Return where the one occurrence lies."""
        return self._spans[number][0] if number in self._spans else None

    def equals(self, number: int, value: bytes) -> bool:
        """Tell whether the one string is this."""
        span = self.span(number)
        return span is not None and bytes(self._data[span.start : span.end][:64]) == value

    def bytes_of(self, number: int, limit: int) -> bytes:
        """Return the one string; empty if there is none.

        Raises:
            InvalidPackageError: it is longer than the limit.
        """
        span = self.span(number)
        if span is None:
            return b""
        if span.size > limit:
            raise InvalidPackageError(
                f"{self.where}: field {number} has {span.size} bytes, more than {limit}"
            )
        return bytes(self._data[span.start : span.end])

    def text(self, number: int, limit: int = 4096) -> str:
        """Return the one string as text; empty if there is none.

        Raises:
            InvalidPackageError: it is too long, or not UTF-8.
        """
        raw = self.bytes_of(number, limit)
        try:
            return raw.decode()
        except UnicodeDecodeError:
            raise InvalidPackageError(
                f"{self.where}: field {number} is not UTF-8: {shown(raw)}"
            ) from None


class WireReader:
    """Reads messages out of one buffer, and stops at a total of `MAX_FIELDS` fields."""

    def __init__(self, data: memoryview) -> None:
        self.data = data
        self._left = MAX_FIELDS

    def read(self, span: Span, wanted: Mapping[int, Kind], where: str) -> Found:
        """Return the wanted fields of the message at the span; all others are stepped over.

        Raises:
            InvalidPackageError: malformed, ambiguous, or too many fields.
        """
        found = Found(self.data, where)
        at, end = span
        data = self.data
        while at < end:
            self._left -= 1
            if self._left < 0:
                raise InvalidPackageError(f"{where}: the model has over {MAX_FIELDS} fields")
            tag = data[at]
            at += 1
            if tag >= _MORE:
                tag, at = varint(data, at - 1, end, where)
            number, wire = tag >> 3, tag & 7
            if not number or tag >= _MAX_TAG:
                raise InvalidPackageError(f"{where}: malformed field tag at byte {at}")
            if wire == VARINT:
                value, at = varint(data, at, end, where)
                content = Span(at, at)
            else:
                value, content = 0, content_span(data, at, end, wire, where)
                at = content.end
            kind = wanted.get(number)
            if kind is not None:
                self._keep(found, (number, wire), kind, value, content)
        return found

    def _keep(
        self, found: Found, tag: tuple[int, int], kind: Kind, value: int, content: Span
    ) -> None:
        number, wire = tag
        if kind is Kind.SEEN:
            if number not in found:
                found.add_number(number, 1)
            return
        if kind is Kind.INTS and wire == LENGTH_DELIMITED:
            self._unpack(found, number, content)
            return
        expected = VARINT if kind in (Kind.INT, Kind.INTS) else LENGTH_DELIMITED
        if wire != expected:
            raise InvalidPackageError(f"{found.where}: field {number} has the wrong wire type")
        if kind in (Kind.INT, Kind.BYTES) and number in found:
            raise InvalidPackageError(f"{found.where}: field {number} occurs twice")
        if wire == VARINT:
            found.add_number(number, value)
        else:
            found.add_span(number, content)

    def _unpack(self, found: Found, number: int, content: Span) -> None:
        at = content.start
        while at < content.end:
            self._left -= 1
            if self._left < 0:
                raise InvalidPackageError(f"{found.where}: the model has over {MAX_FIELDS} fields")
            value, at = varint(self.data, at, content.end, found.where)
            found.add_number(number, value)


def content_span(data: memoryview, at: int, end: int, wire: int, where: str) -> Span:
    """Return where the content of a field that is no varint lies.

    Raises:
        InvalidPackageError: it reaches beyond its message, or is a group.
    """
    if wire == LENGTH_DELIMITED:
        size, at = varint(data, at, end, where)
    elif wire in (FIXED32, FIXED64):
        size = 4 if wire == FIXED32 else 8
    else:
        raise InvalidPackageError(f"{where}: wire type {wire} at byte {at} is not used by ONNX")
    if size > end - at:
        raise InvalidPackageError(f"{where}: a field at byte {at} reaches beyond its message")
    return Span(at, at + size)


def varint(data: memoryview, at: int, end: int, where: str) -> tuple[int, int]:
    """Return the varint at a place, and the place after it.

    Raises:
        InvalidPackageError: cut off, or over 64 bits.
    """
    if at < end and data[at] < _MORE:
        return data[at], at + 1
    value = shift = 0
    for place in range(at, min(end, at + _MAX_VARINT)):
        byte = data[place]
        value |= (byte & 0x7F) << shift
        if byte < _MORE:
            return value & 0xFFFF_FFFF_FFFF_FFFF, place + 1
        shift += 7
    raise InvalidPackageError(f"{where}: malformed integer at byte {at}")


def encode_varint(value: int) -> bytes:
    """Return a non-negative integer as a varint."""
    out = bytearray()
    while value >= _MORE:
        out.append(value & 0x7F | _MORE)
        value >>= 7
    out.append(value)
    return bytes(out)


def encode_head(number: int, size: int) -> bytes:
    """Return tag and length of a string or message field."""
    return encode_varint(number << 3 | LENGTH_DELIMITED) + encode_varint(size)
