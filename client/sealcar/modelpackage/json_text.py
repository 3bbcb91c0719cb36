"""JSON as the format's reference implementation reads and prints it.

Reading is RFC 8259 in strict UTF-8 with three allowances: a leading byte order mark, a NUL byte as
the end, and duplicate keys (the last value at the first place) unless the caller wants them unique.
"""

from __future__ import annotations

import json
import math
from typing import TYPE_CHECKING, Final, TypeAlias

from sealcar.modelpackage.doubles import print_double
from sealcar.modelpackage.errors import LimitError, SchemaError
from sealcar.modelpackage.positions import first_bad_literal, position
from sealcar.modelpackage.rules import Limits

if TYPE_CHECKING:
    from collections.abc import Iterable

Json: TypeAlias = "dict[str, Json] | list[Json] | str | int | float | bool | None"

_BOM: Final = b"\xef\xbb\xbf"
_SMALLEST: Final = -(1 << 63)
_LARGEST: Final = (1 << 64) - 1
_LIMITS: Final = Limits()
_INDENT: Final = "  "


def parse(
    raw: bytes, where: str, *, unique_keys: bool = False, limits: Limits | None = None
) -> Json:
    """Return the value of a JSON document.

    Args:
        raw: the document.
        where: its name in errors.
        unique_keys: refuse duplicate keys, and integers that would silently become doubles.
        limits: for its size and depth.

    Raises:
        SchemaError: no valid JSON; the message has the line and column.
        LimitError: larger or deeper than the limits.
    """
    limits = limits or _LIMITS
    if len(raw) > limits.document_bytes:
        raise LimitError(f"the document has over {limits.document_bytes} bytes", where=where)
    text = _decoded(raw.removeprefix(_BOM).split(b"\0", 1)[0], where)
    try:
        value: Json = json.loads(
            text,
            object_pairs_hook=_unique if unique_keys else dict,
            parse_int=_exact_integer if unique_keys else _integer,
            parse_float=_double,
            parse_constant=_no_constant,
        )
    except json.JSONDecodeError as error:
        place = f"line {error.lineno} column {error.colno}"
        raise SchemaError(f"invalid JSON at {place}: {error.msg}", where=where) from error
    except (ValueError, OverflowError) as error:
        place = first_bad_literal(text)
        raise SchemaError(f"invalid JSON{place}: {error}", where=where) from error
    except RecursionError:
        raise LimitError("the document is nested too deep", where=where) from None
    _check_depth(value, where, limits.depth)
    if "\\u" in text and not _well_formed(text, value):
        place = first_bad_literal(text)
        raise SchemaError(f"invalid JSON{place}: a lone surrogate", where=where)
    return value


def checked(value: object, where: str) -> Json:
    """Return a copy of a value that a caller gave, with the types that `parse` would give.

    Raises:
        SchemaError: no JSON can be made of it.
    """
    try:
        text = json.dumps(value, ensure_ascii=False, allow_nan=False)
        return parse(text.encode(), where)
    except (TypeError, ValueError, RecursionError) as error:
        raise SchemaError(f"can't be written as JSON: {error}", where=where) from error


def compact(value: Json) -> str:
    """Return a value as the reference implementation prints it without white space."""
    if isinstance(value, str):
        return json.dumps(value, ensure_ascii=False)
    if isinstance(value, float):
        return print_double(value)
    if isinstance(value, dict):
        return "{" + ",".join(f"{compact(k)}:{compact(v)}" for k, v in value.items()) + "}"
    if isinstance(value, list):
        return "[" + ",".join(compact(item) for item in value) + "]"
    return json.dumps(value)


def document(value: Json) -> bytes:
    """Return a value as the reference implementation writes it to a file.

    Raises:
        SchemaError: there is a name in it that isn't UTF-8.
    """
    try:
        return (_indented(value, "\n") + "\n").encode()
    except UnicodeEncodeError as error:
        raise SchemaError(f"can't be written as JSON: {error}") from error


def _indented(value: Json, newline: str) -> str:
    inner = newline + _INDENT
    if isinstance(value, dict) and value:
        members = [f"{compact(key)}: {_indented(item, inner)}" for key, item in value.items()]
        return "{" + inner + f",{inner}".join(members) + newline + "}"
    if isinstance(value, list) and value:
        return (
            "[" + inner + f",{inner}".join(_indented(item, inner) for item in value) + newline + "]"
        )
    return compact(value)


def _decoded(raw: bytes, where: str) -> str:
    try:
        return raw.decode()
    except UnicodeDecodeError as error:
        place = position(raw[: error.start].decode(errors="replace"))
        raise SchemaError(f"invalid JSON{place}: not UTF-8", where=where) from error


def _check_depth(value: Json, where: str, depth: int) -> None:
    level: list[Json] = [value]
    for _ in range(depth):
        level = [child for item in level for child in _children(item)]
        if not level:
            return
    raise LimitError(f"the document is nested over {depth} deep", where=where)


def _children(item: Json) -> Iterable[Json]:
    if isinstance(item, dict):
        return item.values()
    return item if isinstance(item, list) else ()


def _well_formed(text: str, value: Json) -> bool:
    # values that a duplicate key hides count too, so the text decides
    try:
        json.dumps(value, ensure_ascii=False).encode()
    except UnicodeEncodeError:
        return False
    return not first_bad_literal(text)


def _unique(pairs: list[tuple[str, Json]]) -> dict[str, Json]:
    value = dict(pairs)
    if len(value) != len(pairs):
        seen: set[str] = set()
        for key, _ in pairs:
            if key in seen:
                raise ValueError(f"key {ascii(key)[:80]} occurs twice")
            seen.add(key)
    return value


def _exact_integer(text: str) -> int:
    value = _integer(text)
    if isinstance(value, float):
        raise ValueError(f"integer {text[:40]} doesn't fit 64 bits")  # noqa: TRY004  (of JSON)
    return value


def _integer(text: str) -> int | float:
    value = int(text)
    return value if _SMALLEST <= value <= _LARGEST else float(value)


def _double(text: str) -> float:
    value = float(text)
    if math.isinf(value):
        raise ValueError(f"number {text[:40]} is out of range")
    return value


def _no_constant(text: str) -> Json:
    raise ValueError(f"{text} is not JSON")
