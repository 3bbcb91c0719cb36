"""What the samples of a way come down to: least, median and most of each moment, and ratios."""

from __future__ import annotations

import statistics
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any, Final

from sealcar.benching.jobs import MOMENTS
from sealcar.benching.sampling import CLIENT, DAEMON

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from sealcar.benching.sampling import Sample

# answers of two ways differ by less, or they aren't the same model's
_TOLERANCE: Final = 5e-3
_COUNTED: Final = ("minor_faults", "major_faults", "logical_read", "physical_read")


@dataclass(frozen=True)
class Spread:
    """Least, median and most of some samples, in seconds."""

    least: float
    median: float
    most: float

    @classmethod
    def of(cls, values: Sequence[float]) -> Spread | None:
        """Return it; None of nothing."""
        return cls(min(values), statistics.median(values), max(values)) if values else None


@dataclass(frozen=True)
class Figures:
    """One way's.

    Attributes:
        way: its name.
        cache: "warm" or "cold".
        samples: that count.
        disturbed: in how many of all somebody else used the machine.
        watched: one more, in which memory was looked at all the time; it doesn't count.
        failed: why there are none.
    """

    way: str
    cache: str
    samples: tuple[Sample, ...]
    disturbed: int = 0
    watched: Sample | None = None
    failed: str = ""

    def spread(self, moment: str) -> Spread | None:
        """Return when a moment was reached."""
        seconds = [each.told.moments.get(moment) for each in self.samples]
        return Spread.of([each for each in seconds if each is not None])

    def ratio(self, moment: str, reference: Figures | None) -> float | None:
        """Return this way's median over another's."""
        mine, other = self.spread(moment), reference.spread(moment) if reference else None
        return mine.median / other.median if mine and other and other.median else None

    def unseen(self, moment: str) -> str:
        """Return what there is to say of how a moment was measured, or why it wasn't."""
        return next((s.told.unseen[moment] for s in self.samples if moment in s.told.unseen), "")

    def as_json(self, reference: Figures | None) -> dict[str, Any]:
        """Return it as plain values: times in seconds, sizes in bytes."""
        if not self.samples:
            return {"way": self.way, "cache": self.cache, "not_measured": self.failed}
        last = self.samples[-1].told
        prepared = Spread.of([each.prepared for each in self.samples])
        return {
            "way": self.way,
            "cache": self.cache,
            "samples": len(self.samples),
            "disturbed": self.disturbed,
            "moments": {each: self._moment(each, reference) for each in MOMENTS},
            "prepared": asdict(prepared) if prepared else None,
            "touched_after_ready": last.untouched,
            "bytes": asdict(last.traffic),
            "processes": {
                role: self._process(role, reference) for role in self.samples[0].counters
            },
            "stayed_in_page_cache": max(each.stayed for each in self.samples),
            "runtime": dict(last.runtime),
            "answer": list(last.answer),
        }

    def process(self, role: str) -> dict[str, int | None]:
        """Return what a process needed: medians of the counters, peaks of the memory."""
        counted = self._counted(role)
        found: dict[str, int | None] = {
            name: round(statistics.median(values)) if values else None
            for name, values in counted.items()
        }
        idle, most = self.watched.memory.get(role, (None, None)) if self.watched else (None, None)
        return found | {
            "private_idle": idle.private if idle else None,
            "private_peak": most.private if most else None,
            "proportional_idle": idle.proportional if idle else None,
            "proportional_peak": most.proportional if most else None,
        }

    def extremes(self, role: str) -> tuple[dict[str, int], dict[str, int]]:
        """Return the least and the most of what was counted in each sample, where it was."""
        counted = {name: values for name, values in self._counted(role).items() if values}
        return (
            {name: min(values) for name, values in counted.items()},
            {name: max(values) for name, values in counted.items()},
        )

    def _counted(self, role: str) -> dict[str, list[int]]:
        spent = [each.counters[role] for each in self.samples]
        return {
            name: [value for value in (getattr(each, name) for each in spent) if value is not None]
            for name in _COUNTED
        }

    def _process(self, role: str, reference: Figures | None) -> dict[str, Any]:
        found = self.process(role)
        least, most = self.extremes(role)
        told: dict[str, Any] = {**found, "least": least, "most": most}
        # the plain way has no daemon
        if role == CLIENT and reference is not None and reference.samples:
            its = reference.process(role)
            told["ratio"] = {
                name: value / other
                for name, value in found.items()
                if value is not None and (other := its[name])
            }
        return told

    def _moment(self, moment: str, reference: Figures | None) -> dict[str, Any]:
        spread = self.spread(moment)
        return {
            "seconds": asdict(spread) if spread else None,
            "ratio": self.ratio(moment, reference),
            "note": self.unseen(moment) or ("" if spread else "not measured"),
        }


def counted(samples: Sequence[Sample], wanted: int) -> tuple[tuple[Sample, ...], int]:
    """Return the samples that count, and how many were disturbed.

    Calm ones count; disturbed ones too if less than half of what was wanted came out calm.
    """
    calm = tuple(each for each in samples if each.calm)
    kept = calm[:wanted] if len(calm) > wanted // 2 else tuple(samples)
    return kept, len(samples) - len(calm)


def alike(one: Figures, other: Figures) -> bool | None:
    """Tell whether two ways answered alike; None where one didn't answer."""
    mine, its = (each.samples[0].told.answer if each.samples else () for each in (one, other))
    if not mine or not its:
        return None
    return len(mine) == len(its) and all(
        abs(a - b) <= _TOLERANCE * max(abs(a), abs(b), 1e-6) for a, b in zip(mine, its, strict=True)
    )


ROLES: Final[Mapping[str, str]] = {CLIENT: "application", DAEMON: "daemon"}
