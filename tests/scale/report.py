"""Runs parts one after the other over one bucket, and keeps what they give."""

from __future__ import annotations

import json
import tempfile
import time
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from bench.machine import machine
from bench.report import keep
from scale import aggregate, clients, fleet, link, listing
from scale.bucket import bucket

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from scale.bucket import Bucket
    from scale.plan import Plan

REPORT: Final = Path("build/scale/report.json")
PARTS: Final[dict[str, Callable[[Plan, Bucket], list[dict[str, Any]]]]] = {
    "daemons": aggregate.measure,
    "daemons-on-disk": aggregate.measure_on_disk,
    "fleet": fleet.measure,
    "fleet-without-cache": fleet.measure_without_cache,
    "listing": listing.measure,
}


def measure(plan: Plan, names: Iterable[str], path: Path) -> dict[str, Any]:
    """Run parts, and return the whole report; what others gave before stays in it.

    Args:
        plan: of the run; each part has a folder of its own below its folder.
        names: of the parts.
        path: where the report is, and is kept.
    """
    found = json.loads(path.read_text()) if path.exists() else {"parts": {}}
    if found["parts"] and found["quick"] != plan.quick:
        found = {"parts": {}}  # what is quick shows that it works, and nothing else
    for name in names:
        plan.say(f"{name}")
        begun, at = time.monotonic(), time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
        with tempfile.TemporaryDirectory(dir=plan.folder, prefix=f"{name}-") as folder:
            rows, server = _run(name, replace(plan, folder=Path(folder)))
        found["parts"][name] = {
            "began": at,
            "seconds": round(time.monotonic() - begun, 1),
            "server": server,
            "rows": rows,
        }
        found |= {"machine": machine(plan.folder), "quick": plan.quick, "plan": _told(plan)}
        keep(found, path)
    return found


def _run(name: str, plan: Plan) -> tuple[list[dict[str, Any]], str]:
    """Run one part over an empty bucket; return its rows, and what played the bucket."""
    reason = "a quick run has no link of its own" if plan.quick else link.missing()
    place = plan.folder / "bucket"
    place.mkdir()
    with ExitStack() as running:
        if reason:
            plan.say(f"  the bucket is on loopback, without a bound: {reason}")
        way = None if reason else running.enter_context(link.link())
        over = running.enter_context(bucket(place, way))
        return PARTS[name](plan, over), over.server


def _told(plan: Plan) -> dict[str, Any]:
    habits = clients.HABITS
    return {
        "served": {"blobs": plan.contents.blobs, "size": plan.contents.size},
        "wanted": {"blobs": plan.package.blobs, "size": plan.package.size},
        "rounds": plan.rounds,
        "streams": plan.streams,
        "fleet": plan.fleet,
        "real": plan.real,
        "rate": plan.rate,
        "stand_ins": {"connections": habits.connections, "piece": habits.piece},
    }
