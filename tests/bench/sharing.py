"""What sharing saves: a second worker's time against the first one's, and eight workers' memory.

Each worker is a new process. Before each first one the daemon is locked and unlocked, which drops
every segment; the second finds what the first one had filled.
"""

from __future__ import annotations

import os
import sys
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Final

from bench.bulk import Bulk, publish
from bench.circumstances import of_payload
from bench.comparing import Way, compare
from bench.fresh import Program
from bench.mapper import AVAILABLE
from bench.parts import Part, Setting
from bench.rows import Row, Traffic
from support.daemon import Daemon
from support.segment_readers import Readers, mapped_by

from sealcar.admin import Admin

if TYPE_CHECKING:
    from collections.abc import Iterator

FIRST: Final = "first worker"
SECOND: Final = "second worker"
PSS: Final = "proportional memory of all segments"
WORKERS: Final = 8
_PROGRAM: Final = str(Path(__file__).with_name("mapper.py"))


def workers(count: int) -> str:
    """Return how so many workers are called as a way."""
    return "one worker" if count == 1 else f"{count} workers"


@contextmanager
def shared_blob(setting: Setting, size: int) -> Iterator[Daemon]:
    """Serve a payload that fits into the memory for segments, which is three quarters of all."""
    settings = {"transfer.memory_limit": str(max(2 * size, 16 << 20))}
    with Daemon(setting.folder, settings=settings) as daemon:
        with daemon.connect() as client:
            publish(client, [Bulk("blob", size)])
        yield daemon


def proportional(daemon: Daemon, count: int) -> float:
    """Return the bytes of segments that so many workers have mapped and touched, in all."""
    with Readers(daemon, "blob", count) as readers:
        return float(sum(mapped_by(pid).proportional for pid in readers.pids))


def _run(setting: Setting) -> list[Row]:
    with shared_blob(setting, setting.size) as daemon:
        command = (sys.executable, _PROGRAM, str(daemon.socket))
        second = Program(command, setting.size, {"daemon": daemon.pid})
        first = replace(second, before=lambda: _forget(daemon))
        mapped = Traffic(mapped=setting.size)
        filled = replace(mapped, copied=2 * setting.size)
        ways = [Way(FIRST, first, FIRST, filled), Way(SECOND, second, FIRST, mapped)]
        # what is only available has moved no bytes yet
        rows = [
            replace(row, size=0) if row.stage == AVAILABLE else row
            for row in compare(ways, setting)
        ]
        return rows + [_memory(daemon, count, setting) for count in (1, WORKERS)]


def _memory(daemon: Daemon, count: int, setting: Setting) -> Row:
    sizes = tuple(proportional(daemon, count) for _ in range(setting.rounds))
    setting.say(f"    {workers(count)}: {max(sizes) / 2**20:.1f} MiB of segments")
    conditions = of_payload(setting.size)
    return Row(
        workers(count),
        PSS,
        sizes,
        "bytes",
        setting.size,
        reference=workers(1),
        traffic=Traffic(mapped=count * setting.size),
        conditions=conditions,
    )


def _forget(daemon: Daemon) -> None:
    """Have no segment filled."""
    with Admin(daemon.admin, peer_uid=os.getuid()) as admin:
        admin.lock()
        admin.unlock()


def _seconds(setting: Setting) -> float:
    return 10 + (setting.rounds + 1) * 2 * (0.6 + 1.2 * setting.size / 2**30)


PARTS: Final = (Part("sharing", "a second worker, and eight, with one segment", _seconds, _run),)
