"""The figures of a report as Markdown, for docs/performance.md."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from bench.loads import PREPARED

from sealcar.benching.jobs import INFERENCE, MOMENTS

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

BEGIN: Final = "<!-- figures of a run: tests/bench/chart.py writes them -->"
END: Final = "<!-- end of the figures -->"
_MET: Final = {True: "met", False: "**not met**", None: "not measured"}
_MACHINE: Final = ("cpu", "cores", "memory", "kernel", "huge_pages", "file_system", "python")
_LOAD: Final = "load-"
_OURS: Final = "sealcar"
_KIB: Final = 1 << 10
_MIB: Final = 1 << 20


def replaced(page: str, figures: str, mark: str = BEGIN) -> str:
    """Return a page with other figures between its marks, of which the first is given."""
    head, begin, rest = page.partition(mark)
    _, end, tail = rest.partition(END)
    if not begin or not end:
        raise ValueError("the page has no marks for the figures")
    return f"{head}{mark}\n\n{figures}\n{END}{tail}"


def figures(report: Mapping[str, Any]) -> str:
    """Return everything that stands between the marks."""
    return "\n".join(
        (
            *_run(report),
            "### Goals",
            "",
            *_goals(report["goals"], report["ratios"]),
            "",
            *(line for name, part in report["parts"].items() for line in _part(name, part)),
            "### Where plain is faster",
            "",
            *_plain_wins(report["parts"]),
            "",
        )
    )


def _run(report: Mapping[str, Any]) -> Iterator[str]:
    machine, parts = report["machine"], report["parts"]
    yield (
        f"All figures from here on, and those of the chart, are of one report of `make bench`;"
        f" tests/bench/baseline.json keeps its ratios. A part that is run again replaces its own"
        f" figures in it, so parts have beginnings of their own; the last one ran at commit"
        f" {machine['commit']}."
    )
    yield ""
    yield "| part | begun | samples wanted of each way |"
    yield "|---|---|---|"
    for name, part in sorted(parts.items(), key=lambda each: str(each[1]["began"])):
        yield f"| {name} | {part['began']} | {part['rounds']} |"
    yield ""
    told = ", ".join(f"{name.replace('_', ' ')} {machine[name]}" for name in _MACHINE)
    versions = ", ".join(f"{name} {machine[name]}" for name in ("onnxruntime", "openssl"))
    yield f"The machine: {told}; {versions}."
    yield ""


def _goals(
    goals: Mapping[str, Mapping[str, Any]], ratios: Mapping[str, float | None]
) -> Iterator[str]:
    yield "| figure | goal | measured | |"
    yield "|---|---|---|---|"
    for name, value in ratios.items():
        goal = goals.get(name)
        most = f"≤ {goal['at_most']:g}" if goal else ""
        shown = "" if value is None else f"{value:.3f}"
        yield f"| `{name}` | {most} | {shown} | {_MET[goal['met']] if goal else ''} |"
    missed = [name for name, goal in goals.items() if goal["met"] is False]
    told = [f"`{name}`, {ratios[name]:.3f} (goal {goals[name]['at_most']:g})" for name in missed]
    yield ""
    yield f"Goals that this run doesn't meet: {'; '.join(told) or 'none'}."


def _part(name: str, part: Mapping[str, Any]) -> Iterator[str]:
    """Yield the table of a part."""
    rows = part["rows"]
    yield f"### {part['about'][0].upper()}{part['about'][1:]}"
    yield ""
    yield from _loads(rows) if name.startswith(_LOAD) else _ways(rows)
    yield ""


def _ways(rows: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    yield "| way | stage | median | least to most | ratio |"
    yield "|---|---|---|---|---|"
    for row in rows:
        if row["median"] is None:
            yield f"| {_cell(row['way'])} | {row['stage']} | skipped: {_cell(row['skipped'])} | | |"
            continue
        least, middle, most = (_time(row[key], row["unit"]) for key in ("min", "median", "max"))
        ratio = "" if row["ratio"] is None else f"{row['ratio']:.2f}"
        way = f"{row['way']}{_point(row)}"
        yield f"| {way} | {row['stage']} | {middle} | {least} to {most} | {ratio} |"


def _point(row: Mapping[str, Any]) -> str:
    """Return where on a curve a row is; a size in words."""
    at = row["at"]
    if at is None:
        return ""
    if at != row["size"]:
        return f" at {at:g}"
    return f" at {at / _MIB:g} MiB" if at >= _MIB else f" at {at / _KIB:g} KiB"


def _loads(rows: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    """Yield a line a way: the median of each moment and, in brackets, its ratio to plain."""
    yield f"| way | {' | '.join(MOMENTS)} | most private memory, application | daemon |"
    yield "|---|" + "---|" * (len(MOMENTS) + 2)
    for way in dict.fromkeys(row["way"] for row in rows):
        found = {row["stage"]: row for row in rows if row["way"] == way}
        if all(row["median"] is None for row in found.values()):
            reason = next(row["skipped"] for row in found.values())
            yield f"| {way} | skipped: {_cell(reason)} |" + " |" * (len(MOMENTS) + 1)
            continue
        cells = [_moment(found.get(moment)) for moment in MOMENTS]
        processes = next(iter(found.values()))["processes"]
        memory = [_memory(processes.get(role)) for role in ("client", "daemon")]
        yield f"| {way} | {' | '.join(cells + memory)} |"


def _moment(row: Mapping[str, Any] | None) -> str:
    if row is None or row["median"] is None:
        return "not measured"
    ratio = "" if row["ratio"] is None else f" ({row['ratio']:.2f})"
    return f"{row['median'] * 1e3:.1f} ms{ratio}"


def _memory(used: Mapping[str, int | None] | None) -> str:
    private = used["private"] if used else None
    return "" if private is None else f"{private / _MIB:.0f} MiB"


def _plain_wins(parts: Mapping[str, Any]) -> Iterator[str]:
    """Yield where ours took longer than what it is compared with."""
    found = [
        f"- {part['about']}: {row['way']}{_point(row)}, {row['stage']}:"
        f" {row['ratio']:.2f} of the plain way"
        for name, part in parts.items()
        for row in part["rows"]
        if row["ratio"] is not None
        and row["ratio"] > 1
        and (row["stage"] == INFERENCE or not name.startswith(_LOAD))
        and row["stage"] != PREPARED
        and row["way"].startswith(_OURS)
        and not row["reference"].startswith(_OURS)
    ]
    yield (
        "A plain reader into huge pages is faster than anything with a cipher"
        " (`blob_read_vs_plain_huge`): an application that may have plaintext on its disk, and"
        " reads it so, has it sooner than sealcar brings it. The same holds here:"
    )
    yield ""
    yield from found or ["- nowhere else in this run"]


def _time(value: float, unit: str) -> str:
    if unit == "bytes":
        return f"{value / _MIB:.1f} MiB"
    return f"{value * 1e3:.2f} ms" if unit == "s" else f"{value:.3g} {unit}".strip()


def _cell(text: str) -> str:
    return text.replace("|", "\\|")
