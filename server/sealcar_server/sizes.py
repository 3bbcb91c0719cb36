"""Sizes as people write them."""

from __future__ import annotations

import re
from typing import Final

_WRITTEN: Final = re.compile(r"(\d{1,15})\s*([KMGT]iB)?")
_UNITS: Final = {None: 1, "KiB": 1 << 10, "MiB": 1 << 20, "GiB": 1 << 30, "TiB": 1 << 40}


def read(text: str) -> int | None:
    """Return how many bytes a text such as "256MiB" or "4096" means; None: it is no size."""
    match = _WRITTEN.fullmatch(text)
    return int(match[1]) * _UNITS[match[2]] if match else None


def written(count: int) -> str:
    """Write a number of bytes in the largest unit of which it is a whole number: "256MiB"."""
    unit, worth = max(
        ((unit, worth) for unit, worth in _UNITS.items() if count % worth == 0),
        key=lambda each: each[1],
    )
    return f"{count // worth}{unit or ''}"
