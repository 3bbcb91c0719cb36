"""What every part of the benchmark returns: rows. What isn't in a row isn't reported.

A row is one way at one stage: how long it took from the same beginning to that stage, in every
sample that counts, and what its processes needed meanwhile.
"""

from __future__ import annotations

import statistics
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any, Final

from sealcar.benching.sampling import CLIENT

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

SEEN: Final = ("private", "proportional")
COUNTED: Final = ("minor_faults", "major_faults", "logical_read", "physical_read")


@dataclass(frozen=True)
class Usage:
    """What one process needed for one sample; None where this user may not look.

    Attributes:
        private: most bytes that were its alone, seen in a run of its own in which it was watched.
        proportional: the same, with its part of what it shares.
        minor_faults: pages that it first touched, or that were mapped to it.
        major_faults: pages that it had to wait for.
        logical_read: bytes that it asked files for.
        physical_read: bytes that came from a device because of it.
        least, most: of what was counted in each sample, by name: all but the memory.
    """

    private: int | None = None
    proportional: int | None = None
    minor_faults: int | None = None
    major_faults: int | None = None
    logical_read: int | None = None
    physical_read: int | None = None
    least: Mapping[str, int] = field(default_factory=dict)
    most: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True)
class Traffic:
    """Where the payload's bytes went, known from how a way works and not measured.

    Attributes:
        copied: from one place in memory to another by anybody, page cache included; a byte that
            is copied twice counts twice.
        borrowed: used where they lie, without a copy of the user's own.
        mapped: in mappings that others share: files, segments.
    """

    copied: int = 0
    borrowed: int = 0
    mapped: int = 0


@dataclass(frozen=True)
class Row:
    """One way at one stage.

    Attributes:
        way: what was done, in words.
        stage: what was reached, in words: "bytes in memory", "session ready".
        samples: of the unit; in order of time. Empty only where it was skipped.
        unit: "s", "ms", "bytes", or "" for a ratio.
        size: bytes of the payload or of the whole model; 0 where there is none.
        disturbed: samples in which somebody else used the machine.
        reference: way of the same part and stage that this one is compared with; "" for none.
        processes: by role ("client", "daemon", "age"): medians of the samples.
        traffic: of the payload's bytes; None where that wasn't looked into.
        conditions: whatever else decides the figure: alignment, huge-page advice, affinity,
            thread policy, optimisation level, cache, digest of the model, versions of a peer.
        at: the point on a curve's axis; None for what is no curve.
        skipped: why there are no samples.
    """

    way: str
    stage: str
    samples: tuple[float, ...] = ()
    unit: str = "s"
    size: int = 0
    disturbed: int = 0
    reference: str = ""
    processes: Mapping[str, Usage] = field(default_factory=dict)
    traffic: Traffic | None = None
    conditions: Mapping[str, str] = field(default_factory=dict)
    at: float | None = None
    skipped: str = ""

    @property
    def median(self) -> float:
        return statistics.median(self.samples)


def as_json(rows: Iterable[Row]) -> list[dict[str, Any]]:
    """Return rows of one part as the report has them: with min, median, max, ratio and GB/s.

    What a client needed has ratios of its own, to the client of the row that this one is compared
    with.
    """
    kept = list(rows)
    return [asdict(row) | _derived(row, kept) for row in kept]


def _derived(row: Row, rows: list[Row]) -> dict[str, Any]:
    if not row.samples:
        return dict.fromkeys(("min", "median", "max", "ratio", "gbps", "gbps_min", "gbps_max"))
    least, median, most = min(row.samples), row.median, max(row.samples)
    other = find(rows, row.reference, row.stage, row.at)
    timed = row.unit == "s" and row.size and least
    return {
        "min": least,
        "median": median,
        "max": most,
        "ratio": median / other.median if other and other.samples else None,
        "gbps": row.size / median / 1e9 if timed else None,
        "gbps_min": row.size / most / 1e9 if timed else None,
        "gbps_max": row.size / least / 1e9 if timed else None,
        "client_ratios": _ratios(row, other),
    }


def _ratios(row: Row, other: Row | None) -> dict[str, float]:
    """Return what the client needed in ratio to another row's, by the names of `Usage`."""
    mine, its = (each.processes.get(CLIENT) if each else None for each in (row, other))
    if mine is None or its is None:
        return {}
    values = {name: (getattr(mine, name), getattr(its, name)) for name in COUNTED + SEEN}
    return {name: a / b for name, (a, b) in values.items() if a is not None and b}


def find(rows: Iterable[Row], way: str, stage: str, at: float | None = None) -> Row | None:
    """Return the row of that way, stage and point; None if there is none."""
    found = (row for row in rows if (row.way, row.stage, row.at) == (way, stage, at))
    return next(found, None)
