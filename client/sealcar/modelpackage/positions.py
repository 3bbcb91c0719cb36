"""Finds, for an error message, where in a JSON text something stands."""

from __future__ import annotations

import json
import re
from typing import Final

# the closing quote is optional: a text without one is passed in one step
_LITERAL: Final = re.compile(r'"(?:[^"\\]|\\.)*"?|-?(?:NaN|Infinity)|-?[0-9][0-9.eE+-]*', re.DOTALL)


def position(before: str) -> str:
    """Return where the text after some other text begins."""
    line = before.count("\n") + 1
    column = len(before) - (before.rfind("\n") + 1) + 1
    return f" at line {line} column {column}"


def first_bad_literal(text: str) -> str:
    """Return where the first text or number stands that a strict reader refuses; else nothing."""
    for match in _LITERAL.finditer(text):
        literal = match[0]
        if not (_sound_text(literal) if literal[0] == '"' else _sound_number(literal)):
            return position(text[: match.start()])
    return ""


def _sound_text(literal: str) -> bool:
    if "\\u" not in literal:
        return True
    try:
        json.loads(literal).encode()
    except ValueError:
        return False
    return True


def _sound_number(literal: str) -> bool:
    try:
        return abs(float(literal)) < float("inf")
    except ValueError:
        return False
