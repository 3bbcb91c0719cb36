"""What a report says in few figures: under fixed names, with goals that they meet or don't.

Each ratio is the time ours ÷ the time of a reference: medians of one alternating run.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, NamedTuple

from bench import blob, fairness, overhead, sharing, small, writing
from bench.mapper import AVAILABLE, TOUCHED
from bench.reader import STAGE as READ
from bench.small_reader import P50, P99
from bench.writer import STAGE as WRITTEN

from sealcar.benching import trial
from sealcar.benching.jobs import INFERENCE

if TYPE_CHECKING:
    from collections.abc import Mapping

CURVE: Final = "curve-"  # how the names of parts begin that are curves
_MIB: Final = 2.0**20
_ALONE: Final = {
    "8_callbacks": fairness.CALLBACKS,
    "8_payloads": fairness.PAYLOADS,
    "64_clients": fairness.CLIENTS,
}
_CROWDS: Final = {
    **_ALONE,
    **{f"{name}_beside_list": fairness.beside(crowd) for name, crowd in _ALONE.items()},
}
_EIGHT: Final = sharing.workers(sharing.WORKERS)


class Divided(NamedTuple):
    """A figure: the median of one way, divided by that of another or by a number.

    Attributes:
        part, way, stage: of the row.
        by: the other way, or the number.
        at: the row's point, where it has one.
    """

    part: str
    way: str
    stage: str
    by: str | float
    at: float | None = None


FIGURES: Final[Mapping[str, Divided]] = {
    "blob_read_vs_qnn_like": Divided("blob", blob.OURS, READ, blob.QNN),
    "blob_read_vs_plain_aligned": Divided("blob", blob.OURS, READ, blob.PLAIN),
    "blob_read_vs_plain_huge": Divided("blob", blob.OURS, READ, blob.HUGE),
    "blob_read_vs_in_process": Divided("blob", blob.OURS, READ, blob.PROCESS),
    "blob_read_vs_tmpfs": Divided("blob", blob.OURS, READ, blob.TMPFS),
    "blob_read_cold_vs_qnn_like": Divided("cold", blob.OURS, READ, blob.QNN),
    "blob_write_vs_plain": Divided("write", writing.OURS, WRITTEN, writing.PLAIN),
    "second_worker_available_vs_first": Divided(
        "sharing", sharing.SECOND, AVAILABLE, sharing.FIRST
    ),
    "second_worker_touched_vs_first": Divided("sharing", sharing.SECOND, TOUCHED, sharing.FIRST),
    "workers8_pss_vs_one": Divided("sharing", _EIGHT, sharing.PSS, sharing.workers(1)),
    **{
        f"overhead_mib_{name}": Divided("memory", overhead.WAY, overhead.STAGE, _MIB, float(size))
        for name, size in {"64mib": 64 << 20, "1gib": 1 << 30, "6gib": 6 << 30}.items()
    },
    **{
        name: Divided(part, way, INFERENCE, trial.PLAINLY)
        for name, (part, way) in {
            "load_onnx_plain_with_options_vs_plain": ("load-onnx", trial.TUNED_PLAINLY),
            "load_onnx_private_vs_plain": ("load-onnx", trial.PRIVATE),
            "load_onnx_shared_first_vs_plain": ("load-onnx", trial.SHARED_FIRST),
            "load_onnx_shared_next_vs_plain": ("load-onnx", trial.SHARED_NEXT),
            "load_compiled_vs_plain": ("load-compiled", trial.PRIVATE),
            "load_ort_plain_with_options_vs_plain": ("load-ort", trial.TUNED_PLAINLY),
            "load_ort_vs_plain": ("load-ort", trial.PRIVATE),
            "load_ort_shared_first_vs_plain": ("load-ort", trial.SHARED_FIRST),
            "load_ort_shared_next_vs_plain": ("load-ort", trial.SHARED_NEXT),
        }.items()
    },
    "small_p50_ms": Divided("small", small.IDLE, P50, 1e-3),
    "small_p99_ms": Divided("small", small.IDLE, P99, 1e-3),
    "small_p99_ms_beside_8_transfers": Divided("small", small.BESIDE, P99, 1e-3),
    **{
        f"slowest_of_{name}_vs_median": Divided("fairness", crowd, fairness.SLOWEST, 1.0)
        for name, crowd in _CROWDS.items()
    },
}
GOALS: Final[Mapping[str, float]] = {
    "blob_read_vs_qnn_like": 0.4,
    "blob_read_vs_plain_aligned": 0.7,
    "blob_read_vs_in_process": 1.5,
    "blob_read_vs_tmpfs": 0.25,
    "blob_read_cold_vs_qnn_like": 0.6,
    "blob_write_vs_plain": 1.1,
    "second_worker_available_vs_first": 0.1,
    "second_worker_touched_vs_first": 0.25,
    "workers8_pss_vs_one": 1.1,
    "overhead_mib_64mib": 20.0,
    "overhead_mib_1gib": 20.0,
    "overhead_mib_6gib": 20.0,
    "small_p50_ms": 0.3,
    "small_p99_ms": 2.0,
    "small_p99_ms_beside_8_transfers": 5.0,
    **{f"slowest_of_{name}_vs_median": fairness.GOAL for name in _CROWDS},
}


def ratios(parts: Mapping[str, Any]) -> dict[str, float | None]:
    """Return every figure of a report's parts; None for what wasn't measured.

    Args:
        parts: as in the report: by name, each with its "rows".
    """
    return {name: _figure(parts, each) for name, each in FIGURES.items()}


def _figure(parts: Mapping[str, Any], what: Divided) -> float | None:
    rows = parts.get(what.part, {}).get("rows", ())
    ours = _median(rows, what.way, what)
    other = _median(rows, what.by, what) if isinstance(what.by, str) else what.by
    return ours / other if ours is not None and other else None


def _median(rows: list[dict[str, Any]], way: str, what: Divided) -> float | None:
    place = (way, what.stage, what.at)
    found = (row["median"] for row in rows if (row["way"], row["stage"], row["at"]) == place)
    return next(found, None)


def goals(figures: Mapping[str, float | None]) -> dict[str, dict[str, Any]]:
    """Return of every goal what was reached, and whether that meets it; None: not measured."""
    found: dict[str, dict[str, Any]] = {}
    for name, most in GOALS.items():
        value = figures.get(name)
        met = None if value is None else value <= most
        found[name] = {"at_most": most, "value": value, "met": met}
    return found


def curves(parts: Mapping[str, Any]) -> dict[str, list[dict[str, Any]]]:
    """Return the points of every part that is a curve, by its name without that word."""
    return {
        name.removeprefix(CURVE): [row for row in part["rows"] if row["at"] is not None]
        for name, part in parts.items()
        if name.startswith(CURVE)
    }
