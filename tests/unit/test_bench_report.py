"""The benchmark's summary: fixed names, goals, curves, and what moved."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from bench import blob, fairness, moving, sharing, small, summary, writing
from bench.mapper import AVAILABLE, TOUCHED
from bench.overhead import STAGE as OVER
from bench.overhead import WAY as BOTH
from bench.reader import STAGE as READ
from bench.rows import Row, as_json
from bench.small_reader import P50, P99
from bench.writer import STAGE as WRITTEN

_BASELINE = Path(__file__).parents[1] / "bench" / "baseline.json"
_READS = {blob.OURS: 1.0, blob.QNN: 4.0, blob.PLAIN: 2.0, blob.HUGE: 0.5, blob.PROCESS: 0.8}
_PROMISED = {
    "blob_read_vs_qnn_like",
    "blob_read_vs_plain_aligned",
    "blob_read_vs_plain_huge",
    "blob_read_vs_in_process",
    "blob_read_vs_tmpfs",
    "blob_write_vs_plain",
    "second_worker_available_vs_first",
    "second_worker_touched_vs_first",
    "workers8_pss_vs_one",
    "overhead_mib_1gib",
    "small_p50_ms",
    "small_p99_ms",
}


def _report(ours: float = 1.0) -> dict[str, Any]:
    reads = {**_READS, blob.TMPFS: 8.0, blob.OURS: ours}
    rows = {
        "blob": [
            Row(way, READ, (seconds,), size=1 << 30, reference=blob.QNN)
            for way, seconds in reads.items()
        ],
        "cold": [Row(blob.OURS, READ, (1.0,)), Row(blob.QNN, READ, (2.0,))],
        "write": [Row(writing.OURS, WRITTEN, (3.0,)), Row(writing.PLAIN, WRITTEN, (2.0,))],
        "sharing": [
            *(Row(sharing.FIRST, stage, (1.0,)) for stage in (AVAILABLE, TOUCHED)),
            *(Row(sharing.SECOND, stage, (0.05,)) for stage in (AVAILABLE, TOUCHED)),
            *(Row(sharing.workers(count), sharing.PSS, (2.0,), "bytes") for count in (1, 8)),
        ],
        "memory": [Row(BOTH, OVER, (12.0 * 2**20,), "bytes", at=float(1 << 30))],
        "small": [
            Row(small.IDLE, P50, (0.0002, 0.0001, 0.0003)),
            Row(small.IDLE, P99, (0.001,)),
            Row(small.BESIDE, P99, (0.004,)),
        ],
        "fairness": [
            Row(way, fairness.SLOWEST, (1.05,), "")
            for crowd in fairness.CROWDS
            for way in (crowd, fairness.beside(crowd))
        ],
        "curve-clients": [Row("sealcar", "all read", (0.1,), at=at) for at in (1.0, 64.0)],
    }
    parts = {name: {"rows": as_json(each)} for name, each in rows.items()}
    return {"parts": parts, "ratios": summary.ratios(parts), "machine": {"cpu": "this one"}}


def test_every_promised_figure_has_its_name_and_is_none_where_it_was_not_measured() -> None:
    assert set(summary.ratios({})) >= _PROMISED
    assert set(summary.ratios({}).values()) == {None}
    figures = _report()["ratios"]
    loads = {name for name in summary.FIGURES if name.startswith("load_")}
    assert {name for name, value in figures.items() if value is None} == {
        "overhead_mib_64mib",
        "overhead_mib_6gib",
        *loads,
    }


def test_ratios_are_medians_of_ours_over_the_reference() -> None:
    figures = _report()["ratios"]
    assert figures["blob_read_vs_qnn_like"] == 0.25
    assert figures["blob_read_vs_plain_huge"] == 2.0
    assert figures["blob_read_vs_in_process"] == 1.25
    assert figures["overhead_mib_1gib"] == 12.0
    assert round(figures["small_p50_ms"], 9) == 0.2


def test_only_the_goal_that_is_missed_is_reported_as_missed() -> None:
    met = summary.goals(_report()["ratios"])
    assert [name for name, goal in met.items() if goal["met"] is False] == ["blob_write_vs_plain"]
    assert met["overhead_mib_6gib"]["met"] is None


def test_a_row_tells_its_spread_its_speed_and_its_ratio_to_what_it_is_compared_with() -> None:
    found = as_json(
        [
            Row("a", "read", (2.0, 1.0, 4.0), size=2 * 10**9, reference="b"),
            Row("b", "read", (4.0,), size=2 * 10**9),
            Row("c", "read", reference="b", skipped="not installed"),
        ]
    )
    assert [found[0][key] for key in ("min", "median", "max", "ratio", "gbps")] == [1, 2, 4, 0.5, 1]
    assert found[1]["ratio"] is None
    assert found[2]["median"] is None
    assert found[2]["skipped"] == "not installed"


def test_curves_are_the_points_of_their_parts() -> None:
    found = summary.curves(_report()["parts"])
    assert [point["at"] for point in found["clients"]] == [1.0, 64.0]


def test_a_read_that_got_slower_shows_as_dearer_and_nothing_else_does() -> None:
    found = moving.moved(_report(ours=1.5), _report())
    dearer = [each for each in found if each.verdict == "dearer"]
    assert {each.name for each in dearer} == {
        *(f"blob_read_vs_{way}" for way in ("qnn_like", "plain_aligned", "plain_huge")),
        "blob_read_vs_in_process",
        "blob_read_vs_tmpfs",
        f"blob: {blob.OURS}, {READ}",
    }
    assert {each.factor for each in dearer} == {1.5}
    assert {each.verdict for each in found if each not in dearer} == {"same"}
    assert {each.verdict for each in moving.moved(_report(), _report(ours=1.5))} == {
        "cheaper",
        "same",
    }


def test_what_only_one_run_has_did_not_move_and_another_machine_is_named() -> None:
    new, old = _report(), _report()
    del old["parts"]["write"]
    old["ratios"]["blob_write_vs_plain"] = None
    assert not [each for each in moving.moved(new, old) if "write" in each.name]
    old["machine"]["cpu"] = "another one"
    assert moving.elsewhere(new, old) == ["cpu: another one then, this one now"]


def test_the_run_that_is_kept_to_compare_with_names_the_figures_that_there_are() -> None:
    baseline = json.loads(_BASELINE.read_text())
    assert set(baseline["ratios"]) <= set(summary.FIGURES)
    assert moving.moved(_report(), baseline)
