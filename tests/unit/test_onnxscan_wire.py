"""The wire format: what is read, and what is refused because two readers could differ."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sealcar.errors import InvalidPackageError
from sealcar.onnxscan.wire import Kind, Span, WireReader, encode_head, encode_varint, varint

WANTED = {1: Kind.INT, 2: Kind.INTS, 3: Kind.BYTES, 4: Kind.REPEATED, 5: Kind.SEEN}


def read(data: bytes) -> tuple[int, tuple[int, ...], bytes, int, bool]:
    found = WireReader(memoryview(data)).read(Span(0, len(data)), WANTED, "message")
    return (
        found.integer(1, -1),
        found.integers(2),
        found.bytes_of(3, 100),
        len(found.spans(4)),
        5 in found,
    )


@given(st.integers(0, 2**64 - 1), st.binary(max_size=3))
def test_an_integer_reads_back(value: int, after: bytes) -> None:
    data = encode_varint(value) + after
    assert varint(memoryview(data), 0, len(data), "x") == (value, len(data) - len(after))


@pytest.mark.parametrize(
    ("data", "expected"),
    [
        (b"", (-1, (), b"", 0, False)),
        (b"\x08\x05", (5, (), b"", 0, False)),
        (b"\x10\x05\x10\x06", (-1, (5, 6), b"", 0, False)),
        (b"\x12\x02\x05\x06\x10\x07", (-1, (5, 6, 7), b"", 0, False)),
        (b"\x10" + b"\xff" * 9 + b"\x01", (-1, (-1,), b"", 0, False)),
        (b"\x1a\x02ab", (-1, (), b"ab", 0, False)),
        (b"\x22\x00\x22\x01x", (-1, (), b"", 2, False)),
        (b"\x2d1234\x29" + bytes(8), (-1, (), b"", 0, True)),
        (b"\x7a\x03abc\xf8\xff\xff\xff\x0f\x00", (-1, (), b"", 0, False)),
    ],
)
def test_wanted_fields_are_found_and_others_stepped_over(
    data: bytes, expected: tuple[object, ...]
) -> None:
    assert read(data) == expected


@pytest.mark.parametrize(
    "data",
    [
        b"\x08",
        b"\x08\x80",
        b"\x08" + b"\x80" * 10 + b"\x01",
        b"\x1a\x03ab",
        b"\x1a\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01",
        b"\x2d123",
        b"\x291234567",
        b"\x12\x01\x80",
        b"\x80\x80\x80\x80\x80\x80\x01\x00",
        b"\x00\x00",
        b"\x0b\x0c",
        b"\x0c",
        b"\x0e",
    ],
    ids=lambda data: data.hex()[:24],
)
def test_what_is_cut_off_or_no_field_is_refused(data: bytes) -> None:
    with pytest.raises(InvalidPackageError):
        read(data)


@pytest.mark.parametrize("data", [b"\x08\x01\x08\x01", b"\x1a\x00\x1a\x00"])
def test_a_field_that_may_occur_once_and_occurs_twice_is_refused(data: bytes) -> None:
    with pytest.raises(InvalidPackageError, match="twice"):
        read(data)


@pytest.mark.parametrize("data", [b"\x0a\x00", b"\x18\x01", b"\x20\x01", b"\x0d1234"])
def test_a_known_field_of_another_wire_type_is_refused(data: bytes) -> None:
    with pytest.raises(InvalidPackageError, match="wire type"):
        read(data)


def test_a_text_too_long_or_not_utf8_is_refused() -> None:
    data = encode_head(3, 101) + bytes(101)
    with pytest.raises(InvalidPackageError, match="more than"):
        read(data)
    found = WireReader(memoryview(b"\x1a\x01\xff")).read(Span(0, 3), WANTED, "message")
    with pytest.raises(InvalidPackageError, match="UTF-8"):
        found.text(3)


def test_a_message_of_countless_fields_is_refused_before_it_is_read_to_its_end() -> None:
    for data in (b"\x10\x01" * 20, b"\x12\x14" + b"\x01" * 20):
        reader = WireReader(memoryview(data))
        reader._left = 10
        with pytest.raises(InvalidPackageError, match="fields"):
            reader.read(Span(0, len(data)), WANTED, "message")
