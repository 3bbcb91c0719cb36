"""The fairness of many readers at once as a part of the whole: rows of what `fairness` measures."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from bench import fairness
from bench.circumstances import of_payload
from bench.parts import Part, Setting
from bench.rows import Row

if TYPE_CHECKING:
    from collections.abc import Iterator

_UNITS: Final = {"seconds": "s", "p50 ms": "ms", "p99 ms": "ms"}


def _run(setting: Setting) -> list[Row]:
    found = fairness.measure(setting.folder, setting.rounds)
    return [row for way, figures in found.items() for row in _rows(way, figures)]


def _rows(way: str, figures: dict[str, tuple[float, ...]]) -> Iterator[Row]:
    conditions = of_payload(fairness.SMALL if "small" in way else fairness.SIZE)
    for stage, values in figures.items():
        yield Row(way, stage, values, _UNITS.get(stage, ""), conditions=conditions)


PARTS: Final = (
    Part(
        "fairness",
        "many readers at once, alone and beside a listing of 10,000 packages",
        lambda setting: 30.0 + 12.0 * setting.rounds,
        _run,
    ),
)
