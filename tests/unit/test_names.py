"""Names from outside: what is accepted, and which rule refuses the rest."""

from __future__ import annotations

import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sealcar import names
from sealcar.errors import InvalidNameError


@pytest.mark.parametrize(
    ("name", "rule"),
    [
        ("", "1 to 200 bytes"),
        ("a//b", "1 to 200 bytes"),
        ("/abs", "1 to 200 bytes"),
        ("a/", "1 to 200 bytes"),
        ("../x", "begin with a dot"),
        ("a/../b", "begin with a dot"),
        ("a/./b", "begin with a dot"),
        (".hidden", "begin with a dot"),
        ("a\0b", "control characters"),
        ("a\nb", "control characters"),
        ("a\x85b", "control characters"),
        ("a\\b", "control characters"),
        ("x" * 201, "1 to 200 bytes"),
        ("é" * 101, "1 to 200 bytes"),
        ("/".join(["abc"] * 300), "at most 1000 bytes"),
        ("x" * 5000, "at most 1000 bytes"),
        ("/".join("abcdefghijklmnopq"), "over 16 components"),
        (unicodedata.normalize("NFD", "é"), "normal form C"),
        ("\udcff", "UTF-8"),
        ("manifest.json", "name of the format"),
        ("Manifest.JSON", "name of the format"),
        ("shared_assets/x", "name of the format"),
    ],
)
def test_a_hostile_payload_name_is_refused_naming_the_rule(name: str, rule: str) -> None:
    with pytest.raises(InvalidNameError, match=rule):
        names.payload(name)


@pytest.mark.parametrize(
    "name", ["model.onnx", "a/b/c.bin", "日本/語", "x" * 200, "a b", "a:b", "~"]
)
def test_an_ordinary_payload_name_is_returned(name: str) -> None:
    assert names.payload(name) == name


@pytest.mark.parametrize(
    "name", ["", ".x", "a/b", "a b", "é.bin", "x" * 201, "a:b", "manifest.json"]
)
def test_a_blob_name_is_one_plain_component(name: str) -> None:
    with pytest.raises(InvalidNameError):
        names.blob(name)


@pytest.mark.parametrize("name", ["", "Ocr", "-x", ".x", "a/b", "ö", "x" * 65, "a\n", "a b"])
def test_a_store_name_is_short_lower_case_ascii(name: str) -> None:
    with pytest.raises(InvalidNameError):
        names.store_name(name)


@given(st.text())
def test_only_one_error_comes_out_of_any_text(name: str) -> None:
    try:
        accepted = names.payload(name)
    except InvalidNameError as error:
        text = str(error)
    else:
        text = ""
        assert accepted == name
        assert ".." not in name.split("/")
    assert len(text) < 300
    assert "\0" not in text
