"""JSON as the format's reference implementation reads and prints it.

Reading is RFC 8259 in strict UTF-8 with three allowances: a leading byte order mark, a NUL byte as
the end, and duplicate keys (the last value at the first place) unless the caller wants them unique.
"""

from __future__ import annotations

import json
import math
from typing import TYPE_CHECKING, Final, TypeAlias

from sealcar.modelpackage.doubles import print_double
from sealcar.modelpackage.errors import SchemaError

if TYPE_CHECKING:
    from collections.abc import Iterable

Json: TypeAlias = "dict[str, Json] | list[Json] | str | int | float | bool | None"

MAX_TEXT: Final = 16 << 20
MAX_DEPTH: Final = 200
_BOM: Final = b"\xef\xbb\xbf"
_SMALLEST: Final = -(1 << 63)
_LARGEST: Final = (1 << 64) - 1


def parse(raw: bytes, where: str, *, unique_keys: bool = False) -> Json:
    """Return the value of a JSON document.

    Args:
        raw: the document.
        where: its name in errors.
        unique_keys: refuse duplicate keys, and integers that would silently become doubles.

    Raises:
        SchemaError: no valid JSON, over 16 MiB, or nested over 200 deep.
    """
    if len(raw) > MAX_TEXT:
        raise SchemaError(f"the document has over {MAX_TEXT} bytes", where=where)
    try:
        value: Json = json.loads(
            raw.removeprefix(_BOM).split(b"\0", 1)[0].decode(),
            object_pairs_hook=_unique if unique_keys else dict,
            parse_int=_exact_integer if unique_keys else _integer,
            parse_float=_double,
            parse_constant=_no_constant,
        )
    except (ValueError, OverflowError) as error:
        raise SchemaError(f"invalid JSON: {error}", where=where) from error
    except RecursionError:
        raise SchemaError("the document is nested too deep", where=where) from None
    _check(value, where)
    return value


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


def _check(value: Json, where: str) -> None:
    level: list[Json] = [value]
    for _ in range(MAX_DEPTH):
        for item in level:
            if isinstance(item, str):
                _well_formed(item, where)
            elif isinstance(item, dict):
                for key in item:
                    _well_formed(key, where)
        level = [child for item in level for child in _children(item)]
        if not level:
            return
    raise SchemaError(f"the document is nested over {MAX_DEPTH} deep", where=where)


def _children(item: Json) -> Iterable[Json]:
    if isinstance(item, dict):
        return item.values()
    return item if isinstance(item, list) else ()


def _well_formed(text: str, where: str) -> None:
    try:
        text.encode()
    except UnicodeEncodeError:
        raise SchemaError("invalid JSON: a lone surrogate", where=where) from None


def _unique(pairs: list[tuple[str, Json]]) -> dict[str, Json]:
    value = dict(pairs)
    if len(value) != len(pairs):
        keys = [key for key, _ in pairs]
        twice = next(key for key in keys if keys.count(key) > 1)
        raise ValueError(f"key {twice!a} occurs twice")
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
