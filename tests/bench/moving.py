"""What moved since an older run: by ratio, for seconds of two runs don't compare."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

# medians of five still move that much from run to run
NOISE: Final = 0.1


class Moved(NamedTuple):
    """One figure of two runs.

    Attributes:
        name: of the figure, or part, way and stage of a row that has a reference.
        old, new: of the two.
    """

    name: str
    old: float
    new: float

    @property
    def factor(self) -> float:
        return self.new / self.old

    @property
    def verdict(self) -> str:
        """ "dearer", "cheaper", or "same" within what chance alone does."""
        if self.factor > 1 + NOISE:
            return "dearer"
        return "cheaper" if self.factor < 1 / (1 + NOISE) else "same"


def moved(new: Mapping[str, Any], old: Mapping[str, Any]) -> list[Moved]:
    """Return every figure and ratio that both reports have, in the new one's order."""
    before = dict(_figures(old))
    return [Moved(name, before[name], value) for name, value in _figures(new) if before.get(name)]


def _figures(report: Mapping[str, Any]) -> Iterator[tuple[str, float]]:
    for name, value in report["ratios"].items():
        if value is not None:
            yield name, value
    for part, each in report.get("parts", {}).items():
        for row in each["rows"]:
            if row["ratio"] is not None and row["way"] != row["reference"]:
                point = "" if row["at"] is None else f" at {row['at']:g}"
                yield f"{part}: {row['way']}, {row['stage']}{point}", row["ratio"]


def elsewhere(new: Mapping[str, Any], old: Mapping[str, Any]) -> list[str]:
    """Return in words what of the two machines differs, if anything."""
    now, then = new["machine"], old["machine"]
    return [
        f"{name}: {then[name]} then, {now[name]} now"
        for name in now
        if name in then and now[name] != then[name]
    ]
