"""What a read needs beside the memory that its bytes end in: of client and daemon together.

Both are new processes that have done nothing yet. What counts is each one's most resident memory
while it reads, over what it had when it was ready, without the ring that the daemon has made ahead.
The ring is in both and is there once: it counts once, and the other way of counting is told beside.
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path
from typing import Final

from bench import processes
from bench.blob import COPIES, OURS, READER
from bench.bulk import Bulk, publish
from bench.circumstances import of_payload
from bench.fresh import Program
from bench.parts import Part, Setting
from bench.rows import Row, Traffic
from support.daemon import Daemon

WAY: Final = "sealcar, client and daemon"
STAGE: Final = "memory over the final buffer"
TWICE: Final = "the same, the ring counted in both"
_SMALL: Final = 64 << 20
_LARGE: Final = 6 << 30


def _run(setting: Setting) -> list[Row]:
    sizes = [_SMALL] if setting.quick else sorted({_SMALL, setting.size})
    sizes += [_LARGE] if setting.full else []
    return [row for size in sizes for row in _rows(setting, size)]


def _rows(setting: Setting, size: int) -> list[Row]:
    with tempfile.TemporaryDirectory(dir=setting.folder) as folder:
        daemon = Daemon(Path(folder))
        with daemon, daemon.connect() as client:
            publish(client, [Bulk("blob", size)])
        seen = [_over(daemon, size) for _ in range(setting.rounds)]
    setting.say(f"    {size >> 20} MiB: {max(seen)[0] / 2**20:.1f} MiB over it")
    conditions = {**of_payload(size), "processes": "both new for each sample"}
    return [
        Row(
            WAY,
            stage,
            samples,
            "bytes",
            size,
            traffic=Traffic(copied=COPIES[OURS] * size),
            conditions=conditions,
            at=float(size),
        )
        for stage, samples in zip((STAGE, TWICE), zip(*seen, strict=True), strict=True)
    ]


def _over(daemon: Daemon, size: int) -> tuple[float, float]:
    """Return the bytes over the buffer: with the ring once, and with it in both processes."""
    command = (sys.executable, READER, "sealcar", "-", str(daemon.socket))
    program = Program(command, size)
    with daemon.start(), program.ready() as process:
        pids = (process.pid, daemon.pid)
        before = sum(processes.resident_memory(pid) for pid in pids)
        before -= processes.shared_memory(daemon.pid)
        ring = -processes.shared_memory(process.pid)
        for pid in pids:
            processes.forget_peak(pid)
        program.go(process)
        ring += processes.shared_memory(process.pid)
        over = sum(processes.peak_memory(pid) for pid in pids) - before - size
        return float(over - ring), float(over)


def _seconds(setting: Setting) -> float:
    return 8 + setting.rounds * (4 + 1.5 * setting.size / 2**30) + (90 if setting.full else 0)


PARTS: Final = (Part("memory", "what a read needs beside its destination", _seconds, _run),)
