from __future__ import annotations

import json
import struct
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sealcar.errors import InvalidPackageError, NotAuthenticError
from sealcar_server.sealing.canonical import canonical, covered, digest, pointer
from sealcar_server.sealing.strictjson import MAX_DEPTH, strict_json

TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=5)
SCALARS = (
    st.none()
    | st.booleans()
    | st.integers(-(1 << 63), (1 << 64) - 1)
    | st.floats(allow_nan=False, allow_infinity=False)
    | TEXT
)
VALUES = st.recursive(
    SCALARS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXT, inner, max_size=3),
    max_leaves=8,
)


def written(value: Any) -> str:  # noqa: ANN401  (any JSON)
    """Tell apart what Python's == doesn't: 1, 1.0 and true, the signs of zero, key order."""
    return json.dumps(value)


@given(VALUES, VALUES)
def test_two_values_have_one_form_only_if_they_are_the_same(one: Any, other: Any) -> None:  # noqa: ANN401
    assert (canonical(one) == canonical(other)) == (written(one) == written(other))


@given(VALUES, st.integers(0, 4), st.booleans())
def test_spaces_and_escapes_don_t_matter(value: Any, indent: int, plain: bool) -> None:  # noqa: ANN401, FBT001
    text = json.dumps(value, indent=indent, ensure_ascii=plain)
    assert canonical(strict_json(text)) == canonical(value)


@pytest.mark.parametrize(
    ("text", "form"),
    [
        ("null", b"n"),
        ("true", b"t"),
        ("false", b"f"),
        ("-0", b"i\0\0\0\x010"),
        ("-12", b"i\0\0\0\x03-12"),
        ("1.0", b"d" + struct.pack(">d", 1)),
        ("1e0", b"d" + struct.pack(">d", 1)),
        ("-0.0", b"d" + struct.pack(">d", -0.0)),
        ('"\\u00e9"', b"s\0\0\0\x02\xc3\xa9"),
        ("[[],1]", b"a\0\0\0\x02a\0\0\0\0i\0\0\0\x011"),
        ('{"b":null,"a":{}}', b"o\0\0\0\x02\0\0\0\x01bn\0\0\0\x01ao\0\0\0\0"),
    ],
)
def test_the_form_is_the_document_s(text: str, form: bytes) -> None:
    assert canonical(strict_json(text)) == form


@pytest.mark.parametrize(
    ("text", "finding"),
    [
        (b'{"a":1,"b":{"x":1,"x":2}}', "'x' stands twice"),
        (b"[18446744073709551616]", "outside"),
        (b"-9223372036854775809", "outside"),
        (b"1" * 5000, "outside"),
        (b"1e400", "too large"),
        (b"NaN", "no JSON number"),
        (b"-Infinity", "no JSON number"),
        (b'"\\ud800"', "surrogate"),
        (b'{"\\udc00": 1}', "surrogate"),
        (b'"\xff"', "not UTF-8 at byte 1"),
        (b"\xef\xbb\xbf{}", "not JSON"),
        (b"{} {}", "line 1 column 4"),
        (b"{}\0", "not JSON"),
        (b"", "not JSON"),
        (b"[" * (MAX_DEPTH + 1) + b"]" * (MAX_DEPTH + 1), "levels"),
        (b"[" * 200_000, "levels"),
    ],
)
def test_json_that_parsers_could_read_differently_is_refused(text: bytes, finding: str) -> None:
    with pytest.raises(InvalidPackageError, match=finding):
        strict_json(text)
    with pytest.raises(NotAuthenticError, match=r"^thing: "):
        strict_json(text, "thing", error=NotAuthenticError)


def test_the_extreme_integers_and_the_deepest_level_are_read() -> None:
    text = f"[{-(1 << 63)}, {(1 << 64) - 1}]"
    assert strict_json(text) == [-(1 << 63), (1 << 64) - 1]
    assert strict_json("[" * MAX_DEPTH + "]" * MAX_DEPTH)


MANIFEST: dict[str, Any] = {
    "schema_version": "1.0",
    "package_name": "ocr",
    "description": "free text",
    "components": {
        "det": {
            "component_name": "det",
            "additional_metadata": {"a": 1},
            "variants": {
                "cpu": {"ep": "x", "executor_info": {"ort": {"a": 1}, "my/ns": {}}},
                "qnn": {"additional_metadata": 3},
            },
        }
    },
    "additional_metadata": {"sealcar": {}},
}


def test_the_covered_parts_are_what_the_runtime_reads_and_no_more() -> None:
    found = covered(MANIFEST)
    assert found.package == {"schema_version": digest("1.0"), "package_name": digest("ocr")}
    assert [(item.component, item.body) for item in found.components] == [
        ("det", digest({"component_name": "det"}))
    ]
    cpu, qnn = found.variants
    assert (cpu.component, cpu.variant, cpu.body) == ("det", "cpu", digest({"ep": "x"}))
    assert cpu.executor_info == {"ort": digest({"a": 1}), "my/ns": digest({})}
    assert (qnn.variant, qnn.body, qnn.executor_info) == ("qnn", digest({}), {})


@pytest.mark.parametrize(
    ("manifest", "place"),
    [
        ([], "/ must"),
        ({}, "/components must"),
        ({"components": {"a/b": "path"}}, "/components/a~1b must"),
        ({"components": {"c": {}}}, "/components/c/variants must"),
        ({"components": {"c": {"variants": {"v": 1}}}}, "/components/c/variants/v must"),
        (
            {"components": {"c": {"variants": {"v": {"executor_info": {"ort": "f.json"}}}}}},
            "/components/c/variants/v/executor_info/ort must",
        ),
    ],
)
def test_what_isn_t_written_inline_is_refused_by_its_place(manifest: Any, place: str) -> None:  # noqa: ANN401
    with pytest.raises(InvalidPackageError, match=place):
        covered(manifest)


def test_pointers_escape_what_would_be_ambiguous() -> None:
    assert pointer("a/b", "~") == "/a~1b/~0"


def test_a_place_in_a_message_holds_no_control_characters() -> None:
    assert pointer("a\n\x1b[31m", "é") == r"/a\n\x1b[31m/\xe9"


def test_finding_a_key_that_stands_twice_takes_no_quadratic_time() -> None:
    keys = ",".join(f'"{number}":0' for number in range(200_000))
    with pytest.raises(InvalidPackageError, match="'199999' stands twice"):
        strict_json(f'{{{keys},"199999":1}}')
