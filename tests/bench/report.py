"""Runs the comparison against a daemon process of its own, and prints ratios and figures."""

from __future__ import annotations

import argparse
import json
import os
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

from bench import fairness, flood, measuring, sharing, summary
from bench.ways import Bytes, small_reads
from support.daemon import Daemon

if TYPE_CHECKING:
    from bench.measuring import Samples

    from sealcar import Client

_SMALL_READS = 2000
_REPORT = Path("build/bench/report.json")


def main() -> None:
    """Run what the command line says."""
    parser = argparse.ArgumentParser(prog="python -m tests.bench", description=__doc__)
    parser.add_argument("--mib", type=int, default=1024, help="size of the payload")
    parser.add_argument("--rounds", type=int, default=5, help="samples of each way")
    parser.add_argument("--folder", type=Path, help="on the disk that counts; default: temporary")
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    parser.add_argument("--flood", action="store_true", help="floods instead, as root")
    parser.add_argument("--sharing", action="store_true", help="shared segments instead")
    parser.add_argument("--fairness", action="store_true", help="many readers at once instead")
    parser.add_argument("--quick", action="store_true", help="64 MiB, one round")
    parser.add_argument("--compare", type=Path, help="an older report.json: what moved")
    options = parser.parse_args()
    if options.quick:
        options.mib, options.rounds = 64, 1
    if options.flood:
        floods = flood.measure(options.rounds * 200)
        sys.stdout.write(json.dumps(floods, indent=2) if options.json else flood.text(floods))
        return
    if options.sharing:
        shared = sharing.measure(options.folder, options.mib << 20, options.rounds)
        sys.stdout.write(json.dumps(shared, indent=2) if options.json else sharing.text(shared))
        return
    if options.fairness:
        fair = fairness.measure(options.folder, options.rounds)
        sys.stdout.write(json.dumps(fair, indent=2) if options.json else fairness.text(fair))
        return
    with tempfile.TemporaryDirectory(dir=options.folder, prefix="sealcar-bench-") as folder:
        found = measure(Path(folder), options.mib << 20, options.rounds)
    shared = sharing.measure(options.folder, options.mib << 20, options.rounds)
    figures = summary.ratios(found, shared)
    found |= {"machine": summary.machine(), "sharing": shared, "ratios": figures}
    found["goals"] = summary.goals(figures)
    old = json.loads(options.compare.read_text())["ratios"] if options.compare else None
    _REPORT.parent.mkdir(parents=True, exist_ok=True)
    _REPORT.write_text(json.dumps(found, indent=2))
    if options.json:
        json.dump(found, sys.stdout, indent=2)
        return
    sys.stdout.write(_text(found) + "\n" + summary.text(figures, old))


def measure(folder: Path, size: int, rounds: int) -> dict[str, Any]:
    """Return everything that is measured, times in seconds and sizes in bytes."""
    with Daemon(folder) as daemon, daemon.connect() as client:
        payload = Bytes(folder, client, size, daemon.socket)
        mine = [os.getpid(), daemon.pid]
        # first, so that the ring and everything else that a first read needs is counted
        memory = _memory(daemon, payload)
        reads = measuring.take_turns(payload.reads(), rounds=rounds, size=size, mine=mine)
        writes = measuring.take_turns(payload.writes(), rounds=rounds, size=size, mine=mine)
        small = small_reads(client, _SMALL_READS)
        return {
            "size": size,
            "cores": len(os.sched_getaffinity(0)),
            "reads": _figures(reads, size),
            "writes": _figures(writes, size),
            "memory": memory,
            "small_read": {"p50": small[len(small) // 2], "p99": small[len(small) * 99 // 100]},
            "state": _state(client),
        }


def _memory(daemon: Daemon, payload: Bytes) -> dict[str, int]:
    """Measure a read by what it needs beside its destination, from idle to peak."""
    own = os.getpid()
    before = {pid: measuring.resident_memory(pid) for pid in (own, daemon.pid)}
    for pid in before:
        measuring.forget_peak(pid)
    payload.read_sealed()
    client = measuring.peak_memory(own) - before[own] - payload.size
    server = measuring.peak_memory(daemon.pid)
    return {"client_over_buffer": client, "daemon_peak": server, "daemon_idle": before[daemon.pid]}


def _figures(samples: dict[str, Samples], size: int) -> dict[str, dict[str, float]]:
    first = next(iter(samples.values())).median
    return {
        name: {
            "seconds": each.median,
            "least": min(each.seconds),
            "most": max(each.seconds),
            "gbps": size / each.median / 1e9,
            "ratio": each.median / first,
            "samples": len(each.seconds),
            "disturbed": each.disturbed,
        }
        for name, each in samples.items()
    }


def _state(client: Client) -> dict[str, int]:
    state = client.state()
    return {"memory": state.memory, "memory_limit": state.memory_limit}


def _text(found: dict[str, Any]) -> str:
    lines = [f"{found['size'] >> 20} MiB, {found['cores']} cores; medians"]
    for what in ("reads", "writes"):
        lines += ["", what]
        for name, figures in found[what].items():
            lines.append(
                f"  {name:44s} {figures['seconds'] * 1e3:8.1f} ms  {figures['gbps']:5.2f} GB/s"
                f"  ratio {figures['ratio']:.2f}"
                f"  ({figures['least'] * 1e3:.0f} to {figures['most'] * 1e3:.0f} ms,"
                f" {figures['samples']:.0f} samples, {figures['disturbed']:.0f} disturbed)"
            )
    memory = {name: value / 2**20 for name, value in found["memory"].items()}
    small = {name: seconds * 1e3 for name, seconds in found["small_read"].items()}
    lines += ["", f"memory: client {memory['client_over_buffer']:.1f} MiB over the final buffer"]
    lines += [
        f"daemon {memory['daemon_peak']:.1f} MiB at its peak, {memory['daemon_idle']:.1f} idle"
    ]
    lines += [f"64,000 bytes in a packet: p50 {small['p50']:.2f} ms, p99 {small['p99']:.2f} ms", ""]
    return "\n".join(lines)
