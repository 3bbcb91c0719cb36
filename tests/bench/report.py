"""Runs parts one after the other, keeps what they give in report.json, and prints it."""

from __future__ import annotations

import json
import tempfile
import time
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from bench import registry, summary
from bench.machine import machine
from bench.rows import as_json

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from bench.parts import Part, Setting

REPORT: Final = Path("build/bench/report.json")
_NOTES: Final = (
    "every sample is a new process, in alternating order; one run of each before isn't counted",
    "samples in which others used more than 6 % of a core count only if too few calm ones came",
    "free memory is touched once before each sample, for a virtual machine may have lost it",
    "memory is the most that was seen in a run of its own, looked at every few ms",
    "bytes copied, borrowed and mapped are known from how a way works; all else is counted",
    "ratios are medians of one run; seconds of two runs don't compare",
    "a plain reader into huge pages is faster than anything with a cipher",
    "cold: nothing in this machine's page cache; a host below it may have its own",
)


def run(part: Part, setting: Setting, root: Path | None, number: str) -> dict[str, Any]:
    """Run a part in a folder of its own, and return it as the report has it.

    Args:
        part: to be run.
        setting: of all; its folder is replaced.
        root: where the folder is made; None: where temporary files go.
        number: which one it is, in words.
    """
    setting.say(f"{number} {part.name}: {part.about} (about {_length(part.seconds(setting))})")
    begun, at = time.monotonic(), time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
    with tempfile.TemporaryDirectory(dir=root, prefix="sealcar-bench-") as folder:
        rows = part.run(replace(setting, folder=Path(folder)))
    return {
        "about": part.about,
        "began": at,
        "seconds": round(time.monotonic() - begun, 1),
        "size": setting.size,
        "rounds": setting.rounds,
        "quick": setting.quick,
        "rows": as_json(rows),
    }


def report(parts: Mapping[str, Any], root: Path | None) -> dict[str, Any]:
    """Return the whole report of what ran."""
    ordered = {part.name: parts[part.name] for part in registry.PARTS if part.name in parts}
    figures = summary.ratios(ordered)
    # what is quick shows that it works, and nothing else
    judged = {} if any(part["quick"] for part in ordered.values()) else figures
    return {
        "machine": machine(root or Path(tempfile.gettempdir())),
        "notes": list(_NOTES),
        "ratios": figures,
        "goals": summary.goals(judged),
        "curves": summary.curves(ordered),
        "parts": ordered,
    }


def stored(path: Path) -> dict[str, Any]:
    """Return the parts of an older report, of real runs only; none if there is none."""
    if not path.exists():
        return {}
    parts = json.loads(path.read_text()).get("parts", {})
    return {name: part for name, part in parts.items() if not part["quick"]}


def keep(found: Mapping[str, Any], path: Path) -> None:
    """Write a report, whole or not at all."""
    path.parent.mkdir(parents=True, exist_ok=True)
    beside = path.with_suffix(".new")
    beside.write_text(json.dumps(found, indent=2) + "\n")
    beside.replace(path)


def expected(parts: Iterable[Part], setting: Setting) -> str:
    """Return in words how long parts take."""
    return _length(sum(part.seconds(setting) for part in parts))


def _length(seconds: float) -> str:
    return f"{seconds:.0f} s" if seconds < 100 else f"{seconds / 60:.0f} min"
