"""Puts a report's figures where people see them: a chart, and the tables of docs/performance.md.

Its ratios are kept beside this module, as a run to compare with.

`python -m tests.bench.chart [REPORT]`, from the root of the tree. A report with quick parts, or
without those that are shown, is refused: what stands there is one real run.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).parent.parent))

from bench import blob, chart_page, loads
from bench.chart_svg import OTHER, OURS, PLAIN, Bar, Panel, svg
from bench.reader import STAGE as READ
from bench.report import REPORT

from sealcar.benching import trial
from sealcar.benching.jobs import INFERENCE

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

SHOWN: Final = ("blob", "load-onnx", "load-compiled")
_ROOT: Final = Path(__file__).parents[2]
PAGE: Final = _ROOT / "docs" / "performance.md"
BASELINE: Final = Path(__file__).with_name("baseline.json")
PICTURE: Final = _ROOT / "docs" / "pictures" / "performance.svg"
_BLOB: Final = {
    blob.QNN: PLAIN,
    blob.PLAIN: PLAIN,
    blob.HUGE: PLAIN,
    blob.PROCESS: OTHER,
    blob.TMPFS: OTHER,
    blob.OURS: OURS,
}
_LOADS: Final = {
    trial.PLAINLY: PLAIN,
    trial.TUNED_PLAINLY: PLAIN,
    loads.IN_PROCESS: OTHER,
    trial.BY_TMPFS: OTHER,
    trial.PRIVATE: OURS,
    trial.SHARED_FIRST: OURS,
    trial.SHARED_NEXT: OURS,
}
_NOTES: Final = (
    "Time as a ratio to the plain way that the line marks: shorter is faster. Medians of one run.",
    "A plain reader into huge pages is faster than anything with a cipher.",
)


def main() -> None:
    """Write all three."""
    report = json.loads(Path(sys.argv[1] if sys.argv[1:] else REPORT).read_text())
    check(report)
    kept = {name: report[name] for name in ("machine", "ratios")}
    BASELINE.write_text(json.dumps(kept, indent=2) + "\n")
    PICTURE.write_text(picture(report))
    PAGE.write_text(chart_page.replaced(PAGE.read_text(), chart_page.figures(report)))


def check(report: Mapping[str, Any]) -> None:
    """Check that a report can be shown.

    Raises:
        SystemExit: it can't; says why.
    """
    parts = report["parts"]
    missing = [name for name in SHOWN if name not in parts]
    quick = [name for name, part in parts.items() if part["quick"]]
    if missing or quick:
        what = f"lacks {', '.join(missing)}" if missing else f"is quick: {', '.join(quick)}"
        sys.exit(f"the report {what}; run `make bench` to its end")


def picture(report: Mapping[str, Any]) -> str:
    """Return the chart."""
    parts = report["parts"]
    panels = [
        Panel(
            f"A blob of {_size(parts['blob']['size'])} into memory",
            _bars(parts["blob"]["rows"], READ, _BLOB),
        )
    ]
    for name in SHOWN[1:]:
        rows = parts[name]["rows"]
        panel = Panel(
            f"{_about(parts[name])}, {_size(_model(rows))}: until it answered once",
            _bars(rows, INFERENCE, _LOADS),
        )
        if panel.bars:
            panels.append(panel)
    return svg("How long blobs and models take, sealed and plain", panels, _NOTES)


def _bars(
    rows: Sequence[Mapping[str, Any]], stage: str, kinds: Mapping[str, str]
) -> tuple[Bar, ...]:
    ratios = {
        row["way"]: row["ratio"]
        for row in rows
        if row["stage"] == stage and row["ratio"] is not None
    }
    # what others are compared with has no reference of its own
    first = next(iter(kinds))
    if ratios:
        ratios.setdefault(first, 1.0)
    return tuple(Bar(way, ratios[way], kind) for way, kind in kinds.items() if way in ratios)


def _about(part: Mapping[str, Any]) -> str:
    return str(part["about"]).partition(": ")[2]


def _model(rows: Sequence[Mapping[str, Any]]) -> int:
    return max(int(row["size"]) for row in rows)


def _size(count: int) -> str:
    gib = count / 2**30
    return f"{gib:.3g} GiB" if gib >= 1 else f"{count / 2**20:.3g} MiB"


if __name__ == "__main__":
    main()
