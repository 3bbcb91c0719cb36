"""Changes to inputs that leave them what they are: bytes alone would seldom stay JSON or TOML."""

from __future__ import annotations

import base64
import binascii
import json
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    import random

_URI: Final = "sha256:" + "5" * 64
_VALUES: Final[list[Any]] = [
    *(
        None,
        True,
        0,
        -1,
        1.5,
        2**53,
        2**63,
        2**64,
        "",
        "x",
        "..",
        "/",
        "a/b",
        "1.0",
        "01",
        "\0",
        "é",
    ),
    *("e\u0301", "ort", "sealcar", "portable", "manifest.json", _URI, f"{_URI}/x", "x" * 300),
    *([], {}, [[]], {"": ""}, {"x": {}}, ["x"]),
]
_LINES: Final = [
    *(b"[[grant]]", b"[grant]", b"uid = 1000", b"uid = -1", b"gid = 4294967295", b"uid = true"),
    *(b'packages = ["ocr"]', b"packages = []", b"packages = [1]", b'packages = "x"', b"x = 1"),
    *(b'rights = ["read", "list"]', b'rights = ["none"]', b"rights = [[]]", b"rights = [1.5]"),
    *(b'components = ["a/b"]', b'listener = "x"', b"listener = 1", b"uid = 1979-05-27", b"{"),
    *(b"rights = [{}]", b'"" = 1', b"grant.x = 1", b"uid = inf", b'packages = ["\\u0000"]'),
]


def changed_json(data: bytes, source: random.Random) -> bytes | None:
    """Return JSON with a few values changed; None if it is no JSON."""
    try:
        value = json.loads(data)
        for _ in range(source.randrange(1, 4)):
            value = _changed(value, source)
        return json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode(
            errors="surrogatepass"
        )
    except (ValueError, RecursionError):
        return None


def changed_lines(data: bytes, source: random.Random) -> bytes:
    """Return a text with a line added, taken out or put in another's place."""
    lines = data.split(b"\n")
    at = source.randrange(len(lines) + 1)
    lines[at : at + source.randrange(3)] = source.sample(_LINES, source.randrange(3))
    return b"\n".join(lines)


def _changed(value: Any, source: random.Random) -> Any:  # noqa: ANN401  (any JSON)
    if isinstance(value, dict) and value and source.random() < 0.9:
        return _changed_object(value, source)
    if isinstance(value, list) and value and source.random() < 0.9:
        at = source.randrange(len(value))
        return [*value[:at], _changed(value[at], source), *value[at + source.randrange(2) :]]
    if isinstance(value, str) and (inner := _nested(value, source)) is not None:
        return inner
    return source.choice(_VALUES)


def _changed_object(value: dict[str, Any], source: random.Random) -> dict[str, Any]:
    key = source.choice(list(value))
    chance = source.random()
    if chance < 0.1:
        return {each: inner for each, inner in value.items() if each != key}
    if chance < 0.2:
        new = str(source.choice(_VALUES))
        return {new if each == key else each: inner for each, inner in value.items()}
    return {**value, key: _changed(value[key], source)}


def _nested(text: str, source: random.Random) -> str | None:
    """Change the JSON that a text holds in base64, as a sealed manifest does."""
    try:
        inner = changed_json(base64.b64decode(text, validate=True), source)
    except (binascii.Error, ValueError):
        return None
    return base64.b64encode(inner).decode() if inner else None
