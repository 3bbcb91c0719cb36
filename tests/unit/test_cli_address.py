"""Addresses, as every command reads them."""

from __future__ import annotations

import unicodedata

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from sealcar import names
from sealcar.address import Address
from sealcar.errors import InvalidNameError, InvalidRequestError

STORE = st.from_regex(names._STORE, fullmatch=True)


def _accepted(name: str) -> bool:
    try:
        names.part(name, "name")
    except InvalidNameError:
        return False
    return True


PART = (
    st.text(st.characters(exclude_categories=("Cs", "Cc")) | st.sampled_from("/@% "), max_size=40)
    .map(lambda text: unicodedata.normalize("NFC", text))
    .filter(_accepted)
)
PAYLOAD = st.lists(PART, min_size=1, max_size=4).map("/".join)


@st.composite
def addresses(draw: st.DrawFn) -> Address:
    depth = draw(st.integers(0, 3))
    inner = [draw(PART), draw(PART), draw(PAYLOAD.filter(_is_payload))][:depth]
    return Address(draw(STORE), draw(st.just("") | STORE), *inner)


def _is_payload(name: str) -> bool:
    try:
        names.payload(name)
    except InvalidNameError:
        return False
    return True


# on its first run the strategy computes tables of Unicode
@settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(addresses())
def test_an_address_reads_back_as_what_was_written(address: Address) -> None:
    assert Address.parse(str(address)) == address


@settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.text(max_size=80))
def test_any_text_is_an_address_or_refused_by_the_one_error(text: str) -> None:
    try:
        address = Address.parse(text)
    except InvalidNameError:
        return
    assert Address.parse(str(address)) == address


@pytest.mark.parametrize(
    ("text", "address"),
    [
        ("ocr", Address("ocr")),
        ("ocr@1.2", Address("ocr", "1.2")),
        ("ocr/det", Address("ocr", "", "det")),
        ("ocr@2/det/qnn-v73", Address("ocr", "2", "det", "qnn-v73")),
        ("ocr/det/cpu/vocab%2Fen.txt", Address("ocr", "", "det", "cpu", "vocab/en.txt")),
        ("ocr/a%40b/100%25", Address("ocr", "", "a@b", "100%")),
    ],
)
def test_the_shapes_that_the_help_names(text: str, address: Address) -> None:
    assert Address.parse(text) == address
    assert str(address) == text


@pytest.mark.parametrize(
    "text",
    [
        *("", "/", "@1", "ocr@", "ocr//cpu", "ocr/", "ocr/det/cpu/", "ocr/det/cpu/a/b"),
        *("OCR", "ocr/..", "ocr/.hidden", "ocr/100%", "ocr/%zz", "ocr/%ff", "ocr/a%00b"),
        *("ocr/det/cpu/..%2F..%2Fetc", "ocr/det/cpu/%2Fetc%2Fpasswd", "ocr/det/cpu/manifest.json"),
        *("ocr/" + "a" * 5000, "ocr/det%2Fx", "../ocr", "ocr@../1"),
    ],
)
def test_what_is_not_an_address_is_refused(text: str) -> None:
    with pytest.raises(InvalidNameError):
        Address.parse(text)


def test_where_a_whole_package_is_meant_nothing_in_it_is_taken() -> None:
    assert Address.whole("ocr@1.2") == Address("ocr", "1.2")
    with pytest.raises(InvalidRequestError, match=r"whole package: ocr@1\.2$"):
        Address.whole("ocr@1.2/det")
