"""A report as lines for people."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from bench.moving import elsewhere, moved
from bench.summary import FIGURES

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

_MIB: Final = 1 << 20
_SCALES: Final = {"s": (1e3, "ms"), "bytes": (1 / _MIB, "MiB"), "ms": (1.0, "ms"), "": (1.0, "")}


def text(report: Mapping[str, Any], old: Mapping[str, Any] | None = None) -> str:
    """Return the whole table: each part, the figures with their goals, and what moved."""
    lines = ["medians (least to most); ratio: to the way that its part compares with", ""]
    for name, part in report["parts"].items():
        lines += [f"{name}: {part['about']}", *(_row(row) for row in part["rows"])]
        lines += [*_processes(row for row in part["rows"] if row["at"] is None), ""]
    lines += _figures(report)
    if old:
        lines += ["", *_moved(report, old)]
    return "\n".join(lines) + "\n"


def _row(row: Mapping[str, Any]) -> str:
    point = "" if row["at"] is None else f" at {row['at']:g}"
    head = f"  {row['way']}, {row['stage']}{point}"
    if row["median"] is None:
        return f"{head}: skipped: {row['skipped']}"
    scale, unit = _SCALES[row["unit"]]
    least, middle, most = (row[key] * scale for key in ("min", "median", "max"))
    words = [f"{middle:.5g} {unit} ({least:.4g} to {most:.4g})"]
    if row["ratio"] is not None:
        words.append(f"ratio {row['ratio']:.3f}")
    if row["gbps"] is not None:
        words.append(f"{row['gbps']:.2f} GB/s")
    if row["disturbed"]:
        words.append(f"{row['disturbed']} disturbed")
    return f"{head:68} " + "; ".join(words)


def _processes(rows: Iterable[Mapping[str, Any]]) -> Iterator[str]:
    """Yield what every process of a part needed, once for all stages of a way."""
    told = set()
    for row in rows:
        for role, used in row["processes"].items():
            # many of a kind are numbered; the first one stands for them
            line = f"    {row['way']}, {role}: {_used(used)}"
            kind = (row["way"], role.rstrip("0123456789"))
            if kind not in told:
                told.add(kind)
                yield line


def _used(used: Mapping[str, int | None]) -> str:
    def mib(name: str) -> str:
        value = used[name]
        return "?" if value is None else f"{value / _MIB:.1f}"

    return (
        f"MiB {mib('private')} private, {mib('proportional')} proportional,"
        f" {mib('logical_read')} read, {mib('physical_read')} of them from a device;"
        f" {used['minor_faults']} minor and {used['major_faults']} major faults"
    )


def _figures(report: Mapping[str, Any]) -> Iterator[str]:
    for name, value in report["ratios"].items():
        if FIGURES[name].part not in report["parts"]:
            continue
        goal = report["goals"].get(name)
        words = [f"{name:44}", "not measured" if value is None else f"{value:12.3f}"]
        if goal:
            judged = {True: "met", False: "NOT met", None: ""}[goal["met"]]
            words.append(f"goal {goal['at_most']:g} {judged}")
        yield "  ".join(words).rstrip()


def _moved(new: Mapping[str, Any], old: Mapping[str, Any]) -> Iterator[str]:
    others = elsewhere(new, old)
    if others:
        yield "the older run had other circumstances:"
        yield from (f"  {each}" for each in others)
    found = moved(new, old)
    same = sum(each.verdict == "same" for each in found)
    yield f"moved since then, by ratio ({same} of {len(found)} didn't, within a tenth):"
    for each in found:
        if each.verdict != "same":
            change = f"x{each.factor:.2f}, {each.verdict}"
            yield f"  {each.name}: {each.old:.3f} to {each.new:.3f} ({change})"
