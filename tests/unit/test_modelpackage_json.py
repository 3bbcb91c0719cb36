"""JSON as the reference implementation reads and prints it."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sealcar.modelpackage.doubles import print_double
from sealcar.modelpackage.errors import SchemaError
from sealcar.modelpackage.json_text import compact, parse


@pytest.mark.parametrize(
    ("text", "printed"),
    [
        ("1E2", "100.0"),
        ("1e15", "1e+15"),
        ("123456789012345.5", "123456789012345.5"),
        ("1e-5", "1e-05"),
        ("0.0001", "0.0001"),
        ("-0.0", "-0.0"),
        ("0.0", "0.0"),
        ("1e22", "1e+22"),
        ("5e-324", "5e-324"),
        ("1.7976931348623157e308", "1.7976931348623157e+308"),
        ("18446744073709551616", "1.8446744073709552e+19"),
        ("6.311334", "6.3113340000000004"),
        ("280.25976", "280.25976000000003"),
        ("5866.546785", "5866.5467850000005"),
        ("-0", "0"),
        ("18446744073709551615", "18446744073709551615"),
        (r'"\u0001\u007f\t/\/"', '"\\u0001\x7f\\t//"'),
        ("[ ]", "[]"),
        ('{"a" : {}, "b":[true,null]}', '{"a":{},"b":[true,null]}'),
    ],
)
def test_a_value_is_printed_as_the_reference_prints_it(text: str, printed: str) -> None:
    assert compact(parse(text.encode(), "x")) == printed


@given(st.floats(allow_nan=False, allow_infinity=False))
def test_a_printed_double_reads_back_as_the_same_double(value: float) -> None:
    assert float(print_double(value)).hex() == value.hex()


@pytest.mark.parametrize(
    "raw",
    [
        b"",
        b"{,}",
        b"[1,]",
        b"// c\n1",
        b"NaN",
        b"-Infinity",
        b"1e400",
        b"1" * 400,
        b"1" * 5000,
        b'"\xff"',
        b'"\xed\xa0\x80"',
        rb'"\ud800"',
        rb'{"\udfff": 1}',
        b'"\n"',
        b"[" * 201 + b"]" * 201,
        b"[" * 100_000,
        b" " * ((16 << 20) + 1),
    ],
)
def test_what_is_not_strict_json_is_refused_with_its_place(raw: bytes) -> None:
    with pytest.raises(SchemaError) as caught:
        parse(raw, "here.json")
    assert caught.value.where == "here.json"


def test_a_byte_order_mark_is_skipped_and_a_nul_byte_ends_the_document() -> None:
    assert parse(b"\xef\xbb\xbf[1]\0garbage", "x") == [1]


def test_of_duplicate_keys_the_last_value_stands_at_the_first_place() -> None:
    assert compact(parse(b'{"a":1,"b":2,"a":3}', "x")) == '{"a":3,"b":2}'


@pytest.mark.parametrize("raw", [b'[{"a":1,"b":2,"a":3}]', b"18446744073709551616"])
def test_what_readers_take_differently_is_refused_when_asked(raw: bytes) -> None:
    with pytest.raises(SchemaError):
        parse(raw, "x", unique_keys=True)
