"""The figures of a report as Markdown, for docs/scale.md.

`python -m tests.scale.page [REPORT]`, from the root of the tree: writes them into the page, and
keeps the report beside this module. A quick report is refused, and so is one without daemons or a
fleet; what else it lacks, the page says.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).parent.parent))

from bench.chart_page import replaced
from scale import clients, page_paper, paper
from scale.counting import KINDS
from scale.report import PARTS, REPORT

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

BEGIN: Final = "<!-- figures of a run: tests/scale/page.py writes them -->"
PAGE: Final = Path(__file__).parents[2] / "docs" / "scale.md"
KEPT: Final = Path(__file__).with_name("report.json")
MACHINE: Final = ("cpu", "cores", "memory", "kernel", "file_system", "python")
_ROLES: Final = ("daemons", "readers", "server")


def main() -> None:
    """Write both."""
    report = json.loads(Path(sys.argv[1] if sys.argv[1:] else REPORT).read_text())
    missing = [name for name in paper.NEEDED if name not in report["parts"]]
    if missing or report["quick"]:
        sys.exit(f"the report {f'lacks {missing}' if missing else 'is quick'}: run it to its end")
    KEPT.write_text(json.dumps(report, indent=1) + "\n")
    PAGE.write_text(replaced(PAGE.read_text(), figures(report), BEGIN))


def figures(report: Mapping[str, Any]) -> str:
    """Return everything that stands between the marks."""
    rows = {name: report["parts"].get(name, {"rows": []})["rows"] for name in PARTS}
    missing = ", ".join(name for name in PARTS if not rows[name])
    lines = (
        *_run(report),
        *([f"Not measured in this run: {missing}.", ""] if missing else []),
        "### One bucket, several daemons",
        "",
        *_daemons([*rows["daemons"], *rows["daemons-on-disk"]]),
        "",
        f"### {report['plan']['fleet']} nodes that want the same package",
        "",
        *_fleet([*rows["fleet"], *rows["fleet-without-cache"]]),
        "",
        "### Listing",
        "",
        *_listing(rows["listing"]),
        "",
        *page_paper.lines(report),
        "",
    )
    return "\n".join(lines)


def _run(report: Mapping[str, Any]) -> Iterator[str]:
    machine, parts, plan = report["machine"], report["parts"], report["plan"]
    served, wanted = (
        f"{each['blobs']} payloads of {each['size'] / 1e6:.1f} MB"
        for each in (plan["served"], plan["wanted"])
    )
    yield (
        f"All figures from here on are of one report of `make bench-scale`, which"
        f" tests/scale/report.json keeps; a part that is run again replaces its own. The last one"
        f" ran at commit {machine['commit']}. The daemons' package has {served}, the fleet's"
        f" {wanted}; a reader asks for {plan['streams']} at a time; {plan['rounds']} samples each."
    )
    yield ""
    yield "| part | begun | seconds | the bucket |"
    yield "|---|---|---|---|"
    for name, part in parts.items():
        yield f"| {name} | {part['began']} | {part['seconds']:.0f} | {part['server']} |"
    yield ""
    told = ", ".join(f"{name.replace('_', ' ')} {machine[name]}" for name in MACHINE)
    yield f"The machine: {told}."
    yield ""


def _daemons(rows: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    yield (
        "| bytes | daemons | readers | GB/s | first byte, p50 | p99 |"
        f" {' | '.join(f'{each} per GB' for each in KINDS[:4])} |"
        " core seconds per GB: daemons | readers | server |"
    )
    yield "|---|---|---|---|---|---|" + "---|" * 7
    for row in rows:
        first = row["first_byte_ms"]
        timed = [f"{first[each]:.1f} ms" if row["first_bytes"] else "" for each in ("p50", "p99")]
        asked = [_count(row["requests_per_gb"].get(kind)) for kind in KINDS[:4]]
        busy = [
            f"{row['core_seconds_per_gb'][role]:.2f}" if role in row["core_seconds_per_gb"] else ""
            for role in _ROLES
        ]
        cells = (row["way"], row["daemons"], row["language"], f"{row['gbps']:.2f}")
        yield f"| {' | '.join(map(str, (*cells, *timed, *asked, *busy)))} |"
    disturbed = sum(row["disturbed"] for row in rows)
    least = min(row["first_bytes"] for row in rows if row["first_bytes"])
    most = max(row["first_bytes"] for row in rows)
    yield ""
    yield (
        f"The quantiles are over {least} to {most} first bytes each, {clients.C} and"
        f" {clients.PYTHON} apart; {disturbed} samples were disturbed by others on the machine."
    )


def _fleet(rows: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    yield (
        "| start | daemons serve | all have it | real nodes, median | slowest |"
        " who stand in, median | slowest | sent by the bucket | first byte, p50 | p99 |"
        f" {' | '.join(f'{each} of a node' for each in KINDS[:4])} | key calls of a node |"
    )
    yield "|---|---|---|---|---|---|---|---|---|---|" + "---|" * 5
    for row in rows:
        took = [_spread(row["seconds"][each]) for each in ("real", "others")]
        nodes = [
            row["requests_of_a_real_node"].get(kind, 0)
            + row["requests_of_a_daemon_that_starts"].get(kind, 0)
            for kind in KINDS[:4]
        ]
        cells = (
            row["way"],
            f"{row['daemons_serving']:.1f} s",
            f"{row['seconds']['all']:.1f} s",
            *took[0],
            *took[1],
            f"{row['passed'] / 1e9:.2f} GB",
            *(f"{row['first_byte_ms'][each] / 1e3:.2f} s" for each in ("p50", "p99")),
            *(_count(each) for each in nodes),
            _count(row["key_calls_of_a_real_node"]),
        )
        yield f"| {' | '.join(cells)} |"
    first, last = rows[0], rows[-1]
    bound, share = (
        f"{row['rate'] / paper.GBIT:g} Gbit/s" if row["rate"] else "as fast as the machine is"
        for row in (first, last)
    )
    yield ""
    yield (
        f"{first['nodes']} nodes, {first['real']} of them real; the bucket's link: {bound}. Where"
        f" nobody stands in for the others, it is the real nodes' share of that: {share}. Most"
        f" resident memory of a daemon: {max(row['resident'] for row in rows) / 2**20:.0f} MiB."
    )
    disturbed = [str(row["way"]) for row in rows if not row["calm"]]
    if disturbed:
        yield ""
        yield f"Others used more than 6 % of a core of the machine during: {'; '.join(disturbed)}."


def _spread(seconds: Mapping[str, float]) -> tuple[str, str]:
    return (f"{seconds['median']:.1f} s", f"{seconds['max']:.1f} s") if seconds else ("", "")


def _listing(rows: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    yield f"| packages | | time | {' | '.join(KINDS[:4])} |"
    yield "|---|---|---|" + "---|" * 4
    for row in rows:
        asked = [_count(row["requests"].get(kind)) for kind in KINDS[:4]]
        took = f"{row['seconds'] * 1e3:.1f} ms"
        yield f"| {row['packages']} | {row['way']} | {took} | {' | '.join(asked)} |"


def _count(value: float | None) -> str:
    return f"{value:.4g}" if value else "0"


if __name__ == "__main__":
    main()
