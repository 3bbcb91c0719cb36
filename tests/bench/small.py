"""Small payloads, which come in one packet: alone, and beside eight big transfers."""

from __future__ import annotations

import subprocess
import sys
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Final

from bench.bulk import Bulk, publish
from bench.comparing import Way, compare
from bench.fresh import Program
from bench.interrupts import held
from bench.parts import Part, Setting
from bench.small_reader import SMALL
from support.daemon import Daemon, environment

if TYPE_CHECKING:
    from collections.abc import Iterator

    from bench.rows import Row

IDLE: Final = "64,000 bytes, idle"
BESIDE: Final = "64,000 bytes beside eight big transfers"
_TRANSFERS: Final = 8
_BIG: Final = 64 << 20
_READS: Final = 2000
_PROGRAM: Final = str(Path(__file__).with_name("small_reader.py"))


def _run(setting: Setting) -> list[Row]:
    reads = _READS // 10 if setting.quick else _READS
    with Daemon(setting.folder) as daemon:
        with daemon.connect() as client:
            publish(client, [Bulk("small", SMALL), Bulk("big", _BIG)])
        rows = compare([_way(IDLE, daemon, reads, {})], setting)
        with _transfers(daemon) as others:
            beside = compare([_way(BESIDE, daemon, reads, others)], setting)
    return rows + [replace(row, reference=IDLE) for row in beside]


def _way(name: str, daemon: Daemon, reads: int, others: dict[str, int]) -> Way:
    command = (sys.executable, _PROGRAM, str(daemon.socket), str(reads))
    return Way(
        name,
        Program(command, SMALL, {"daemon": daemon.pid, **others}),
        conditions={"reads": f"{reads} one after the other, after 100 that don't count"},
    )


@contextmanager
def _transfers(daemon: Daemon) -> Iterator[dict[str, int]]:
    """Have big transfers under way without end, each in a process of its own."""
    with ExitStack() as running:
        found = {}
        for number in range(_TRANSFERS):
            with held():
                process = subprocess.Popen(
                    [sys.executable, _PROGRAM, str(daemon.socket)],
                    env=environment(),
                    stdout=subprocess.PIPE,
                    process_group=0,
                )
                running.callback(process.communicate)
                running.callback(process.kill)
            assert process.stdout
            process.stdout.readline()
            found[f"transfer {number}"] = process.pid
        yield found


PARTS: Final = (
    Part("small", "64,000 bytes in a packet", lambda setting: 8 + 4.0 * setting.rounds, _run),
)
