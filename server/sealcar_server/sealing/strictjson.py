"""JSON that means one thing only: what two parsers could read differently is refused."""

from __future__ import annotations

import json
import math
import re
from collections import Counter
from typing import Any, Final, NoReturn, TypeAlias

from sealcar.errors import InvalidPackageError, SealcarError

JsonValue: TypeAlias = (
    "dict[str, JsonValue] | list[JsonValue] | str | int | float | bool | None"  # of RFC 8259
)

MAX_DEPTH: Final = 64
_INTEGERS: Final = range(-(1 << 63), 1 << 64)
_LONGEST_INTEGER: Final = 20
_SURROGATE: Final = re.compile("[\ud800-\udfff]")


class _RefusedError(Exception):
    """What is wrong, for the error that the caller asked for."""


def strict_json(
    data: bytes | str, what: str = "manifest", *, error: type[SealcarError] = InvalidPackageError
) -> JsonValue:
    """Parse RFC 8259 JSON in UTF-8 without a byte order mark.

    Duplicate keys, integers outside [-2^63, 2^64-1], numbers that overflow a double, lone
    surrogates and more than 64 levels are refused.

    Args:
        data: the text.
        what: its name in the message.
        error: the class to raise.

    Raises:
        SealcarError: of the class asked for; the text breaks a rule.
    """
    try:
        text = data if isinstance(data, str) else data.decode()
        value: JsonValue = json.loads(
            text,
            object_pairs_hook=_object,
            parse_int=_integer,
            parse_float=_number,
            parse_constant=_constant,
        )
        _check(value)
    except _RefusedError as refused:
        raise error(f"{what}: {refused}") from None
    except RecursionError:
        raise error(f"{what}: more than {MAX_DEPTH} levels") from None
    except json.JSONDecodeError as broken:
        where = f"line {broken.lineno} column {broken.colno}"
        raise error(f"{what}: not JSON: {broken.msg} at {where}") from None
    except UnicodeDecodeError as broken:
        raise error(f"{what}: not UTF-8 at byte {broken.start}") from None
    return value


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    made = dict(pairs)
    if len(made) != len(pairs):
        twice = Counter(name for name, _ in pairs).most_common(1)[0][0]
        raise _RefusedError(f"the key {twice[:60]!a} stands twice in one object")
    return made


def _integer(text: str) -> int:
    if len(text) > _LONGEST_INTEGER or int(text) not in _INTEGERS:
        raise _RefusedError(f"the integer {text[:24]} is outside [-2^63, 2^64-1]")
    return int(text)


def _number(text: str) -> float:
    value = float(text)
    if not math.isfinite(value):
        raise _RefusedError(f"the number {text[:24]} is too large")
    return value


def _constant(text: str) -> NoReturn:
    raise _RefusedError(f"{text} is no JSON number")


def _check(value: JsonValue) -> None:
    """Refuse what the parser lets through: depth, and text that has no UTF-8."""
    texts: list[str] = []
    level: list[JsonValue] = [value]
    depth = 0
    while level:
        containers = [item for item in level if isinstance(item, (dict, list))]
        depth += bool(containers)
        if depth > MAX_DEPTH:
            raise _RefusedError(f"more than {MAX_DEPTH} levels")
        texts.extend(item for item in level if isinstance(item, str))
        level = []
        for item in containers:
            if isinstance(item, dict):
                texts.extend(item)
                level.extend(item.values())
            else:
                level.extend(item)
    for text in texts:
        if _SURROGATE.search(text):
            raise _RefusedError(f"{text[:60]!a} holds a lone surrogate")
