"""The chart and the tables of a report: what they show is what it says."""

from __future__ import annotations

import json
from typing import Any
from xml.etree import ElementTree as ET

import pytest
from bench import blob, chart, chart_page, loads, summary
from bench.chart_svg import OURS, PLAIN, Bar, Panel, svg
from bench.reader import STAGE as READ

from sealcar.benching import trial
from sealcar.benching.jobs import INFERENCE, READY

_NAMESPACE = "{http://www.w3.org/2000/svg}"


def row(way: str, stage: str, ratio: float | None, median: float | None = 0.25) -> dict[str, Any]:
    used = {"client": {"private": 3 << 20}}
    return {
        "way": way,
        "stage": stage,
        "ratio": ratio,
        "median": median,
        "unit": "s",
        "at": None,
        "min": median,
        "max": median,
        "size": 64 << 20,
        "skipped": "",
        "reference": trial.PLAINLY,
        "processes": used,
    }


def part(about: str, *rows: dict[str, Any]) -> dict[str, Any]:
    told = {"about": about, "began": "2030-01-01T00:00:00Z", "seconds": 60.0, "rounds": 5}
    return {**told, "size": 1 << 30, "quick": False, "rows": list(rows)}


def report() -> dict[str, Any]:
    plain, ours = row(trial.PLAINLY, INFERENCE, 1.0), row(trial.PRIVATE, INFERENCE, 1.25)
    loaded = part("a model until it answers: ONNX", plain, ours, row(trial.PRIVATE, READY, 0.9))
    read = part("a blob into memory", row(blob.QNN, READ, None), row(blob.OURS, READ, 0.31))
    machine = dict.fromkeys((*chart_page._MACHINE, "commit", "onnxruntime", "openssl"), "some")
    return {
        "machine": machine,
        "parts": {"blob": read, "load-onnx": loaded, "load-compiled": loaded},
        "ratios": {
            "blob_read_vs_qnn_like": 0.31,
            "small_p50_ms": None,
            "free": 2.0,
            "missed": 1.784,
        },
        "goals": {
            "blob_read_vs_qnn_like": {"at_most": 0.4, "met": True},
            "small_p50_ms": {"at_most": 0.3, "met": None},
            "missed": {"at_most": 1.5, "met": False},
        },
    }


def test_a_chart_is_well_formed_and_its_bars_are_as_long_as_their_values() -> None:
    bars = (Bar("plain & simple", 1.0, PLAIN), Bar("<ours>", 0.5, OURS))
    root = ET.fromstring(svg("a title", [Panel("a panel", bars)], ["a note"]))  # noqa: S314  (ours)
    first, second = (float(each.get("width", "")) for each in root.iter(f"{_NAMESPACE}rect"))
    assert second * 2 == pytest.approx(first)
    words = [each.text for each in root.iter(f"{_NAMESPACE}text")]
    assert words == ["a panel", "plain & simple", "1.00", "<ours>", "0.50", "a note"]
    (line,) = root.iter(f"{_NAMESPACE}line")
    rect = next(root.iter(f"{_NAMESPACE}rect"))
    assert float(line.get("x1", "")) == float(rect.get("x", "")) + first


def test_a_chart_can_be_read_in_light_and_dark_and_runs_nothing() -> None:
    made = svg("a title", [Panel("a panel", (Bar("ours", 2.0, OURS),))], [])
    assert "prefers-color-scheme: dark" in made
    assert "<script" not in made
    assert "http" not in made.replace(_NAMESPACE[1:-1], "")


def test_the_picture_shows_each_way_of_the_report_and_what_it_is_compared_with() -> None:
    made = chart.picture(report())
    assert "A blob of 1 GiB into memory" in made
    assert ">0.31<" in made
    assert ">1.25<" in made
    assert ">0.90<" not in made, "another moment than the one that is shown"
    assert loads.IN_PROCESS not in made


def test_the_page_has_goals_moments_and_where_plain_wins() -> None:
    made = chart_page.figures(report())
    assert "| `blob_read_vs_qnn_like` | ≤ 0.4 | 0.310 | met |" in made
    assert "| `small_p50_ms` | ≤ 0.3 |  | not measured |" in made
    assert "| `free` |  | 2.000 |  |" in made
    assert "Goals that this run doesn't meet: `missed`, 1.784 (goal 1.5)." in made
    assert "| load-onnx | 2030-01-01T00:00:00Z | 5 |" in made
    assert "250.0 ms (1.25)" in made
    assert "first inference: 1.25 of the plain way" in made
    assert "session ready: 0.9" not in made.split("### Where plain is faster")[1]


def test_the_page_has_curves_too_and_only_what_plain_wins_over_us() -> None:
    found = report()
    listed = row("list all packages", "all listed", None) | {"at": 10_000.0, "size": 0}
    by_c = row("sealcar, by the client in C", READ, 1.5) | {"reference": blob.OURS}
    prepared = row(trial.PRIVATE, loads.PREPARED, 1.5)
    found["parts"]["curve-store"] = part("a store of 1 to 10,000 packages", listed)
    found["parts"]["c"] = part("by the client in C", by_c)
    found["parts"]["first-token"] = part("a language model", prepared)
    made = chart_page.figures(found)
    assert "### A store of 1 to 10,000 packages" in made
    assert (
        "| list all packages at 10000 | all listed | 250.00 ms | 250.00 ms to 250.00 ms |  |"
        in made
    )
    wins = made.split("### Where plain is faster")[1]
    assert "client in C" not in wins
    assert loads.PREPARED not in wins


def test_a_way_of_loading_that_there_is_none_of_says_why() -> None:
    found = report()
    none = row(trial.SHARED_NEXT, READY, None, None) | {"skipped": "nothing to share"}
    found["parts"]["load-onnx"]["rows"].append(none)
    made = chart_page.figures(found)
    assert f"| {trial.SHARED_NEXT} | skipped: nothing to share |" in made


def test_a_payload_that_is_slower_than_plain_is_told_by_its_size() -> None:
    found = report()
    slower = row(blob.OURS, READ, 10.5) | {"at": float(64 << 10), "size": 64 << 10}
    found["parts"]["curve-size"] = part("a blob of each size", slower)
    made = chart_page.figures(found)
    assert "a blob of each size: sealcar at 64 KiB, bytes in memory: 10.50 of the plain way" in made


def test_the_page_and_the_run_that_is_kept_have_the_same_figures() -> None:
    kept = json.loads(chart.BASELINE.read_text())
    ratios = kept["ratios"]
    page = chart.PAGE.read_text()
    assert "\n".join(chart_page._goals(summary.goals(ratios), ratios)) in page
    assert f"the last one ran at commit {kept['machine']['commit']}." in page
    shown = f">{ratios['blob_read_vs_qnn_like']:.2f}<"
    assert shown in chart.PICTURE.read_text()


def test_only_what_is_between_the_marks_is_replaced() -> None:
    page = f"before\n{chart_page.BEGIN}\nold\n{chart_page.END}\nafter\n"
    made = chart_page.replaced(page, "new\n")
    assert made == f"before\n{chart_page.BEGIN}\n\nnew\n\n{chart_page.END}\nafter\n"
    assert chart_page.replaced(made, "new\n") == made
    with pytest.raises(ValueError, match="no marks"):
        chart_page.replaced("nothing", "new")
    assert chart_page.BEGIN in chart.PAGE.read_text()


def test_what_is_quick_or_lacks_a_part_is_never_shown() -> None:
    quick = report()
    quick["parts"]["blob"]["quick"] = True
    with pytest.raises(SystemExit, match="is quick: blob"):
        chart.check(quick)
    short = report()
    del short["parts"]["load-onnx"]
    with pytest.raises(SystemExit, match="lacks load-onnx"):
        chart.check(short)
    chart.check(report())
