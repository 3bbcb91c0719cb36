"""How reading scales: with the payload's size, with clients at once, and with the daemon's workers.

Every point is an alternating run of its own; memory isn't watched.
"""

from __future__ import annotations

import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Final

from bench import blob, sharing
from bench.blob import Blob
from bench.bulk import Bulk, publish
from bench.circumstances import ALONE, of_payload
from bench.comparing import compare
from bench.parts import Part, Setting
from bench.quiet import Quiet
from bench.reader import STAGE
from bench.rows import Row, Traffic
from bench.summary import CURVE
from support.daemon import Daemon, environment

if TYPE_CHECKING:
    from collections.abc import Iterable

ALL_READ: Final = "all have their bytes"
SLOWEST: Final = "slowest ÷ median"
_KIB, _MIB, _GIB = 1 << 10, 1 << 20, 1 << 30
_SIZES: Final = (64 * _KIB, _MIB, 8 * _MIB, 64 * _MIB, 256 * _MIB, _GIB)
_LARGE: Final = 6 * _GIB
_CLIENTS: Final = (1, 2, 4, 8, 16, 32, 64)
_SHARERS: Final = (1, 2, 4, 8)
_PART: Final = 32 * _MIB
_NO_MEMORY: Final = "not enough memory to have it in the page cache three times"
_CROWD: Final = str(Path(__file__).with_name("crowd.py"))


def _points(setting: Setting, points: Iterable[int], least: int) -> list[int]:
    """Return all of them, or the first few of a quick run."""
    return [point for point in points if not setting.quick or point <= least]


def _sizes(setting: Setting) -> list[int]:
    large = [_LARGE] if setting.full else []
    return _points(setting, [*_SIZES, *large], _MIB)


def _by_size(setting: Setting) -> list[Row]:
    rows = []
    for size in _sizes(setting):
        setting.say(f"  {size / _MIB:g} MiB")
        with tempfile.TemporaryDirectory(dir=setting.folder) as folder:
            rows += _of_size(replace(setting, folder=Path(folder)), size)
    return rows


def _of_size(setting: Setting, size: int) -> list[Row]:
    # in plain, sealed by ourselves, and in the store
    if shutil.disk_usage(setting.folder).free < 4 * size:
        reason = f"no room for {size} bytes, three times, in {setting.folder}"
        return [Row(blob.OURS, STAGE, skipped=reason, at=float(size))]
    names, left_out = [blob.QNN, blob.PLAIN, blob.PROCESS, blob.OURS], []
    if 4 * size > _memory():
        # three copies in the page cache and one in a process would drive each other out
        names, left_out = [blob.QNN, blob.OURS], [blob.PLAIN, blob.PROCESS]
    with Daemon(setting.folder) as daemon:
        found = compare(Blob(setting.folder, daemon, size).ways(names), setting, watch=False)
    found += [Row(name, STAGE, skipped=_NO_MEMORY) for name in left_out]
    return [replace(row, at=float(size)) for row in found]


def _memory() -> int:
    return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")


def _by_workers(setting: Setting) -> list[Row]:
    """The daemon with one worker, and so on up to one more than there are cores."""
    rows, size = [], min(setting.size, 256 * _MIB)
    for count in range(1, len(os.sched_getaffinity(0)) + 2):
        setting.say(f"  {count} workers of the daemon")
        with tempfile.TemporaryDirectory(dir=setting.folder) as folder:
            place = Path(folder)
            with Daemon(place, settings={"daemon.workers": str(count)}) as daemon:
                ways = Blob(place, daemon, size).ways((blob.QNN, blob.OURS))
                found = compare(ways, setting, watch=False)
        theirs = {"threads": f"{ALONE} in the client; {count} workers of the daemon"}
        rows += [
            replace(
                row,
                at=float(count),
                conditions={**row.conditions, **(theirs if row.way == blob.OURS else {})},
            )
            for row in found
        ]
    return rows


def _by_sharers(setting: Setting) -> list[Row]:
    size = min(setting.size, 256 * _MIB)
    with sharing.shared_blob(setting, size) as daemon:
        return [
            Row(
                "sealcar, shared",
                sharing.PSS,
                (sharing.proportional(daemon, count),),
                "bytes",
                size,
                traffic=Traffic(mapped=count * size),
                conditions=of_payload(size),
                at=float(count),
            )
            for count in _points(setting, _SHARERS, 2)
        ]


def _by_clients(setting: Setting) -> list[Row]:
    rows = []
    with Daemon(setting.folder) as daemon:
        with daemon.connect() as client:
            publish(client, [Bulk("big", _PART)])
        for count in _points(setting, _CLIENTS, 2):
            rows += _crowd(setting, daemon, count)
    return rows


def _crowd(setting: Setting, daemon: Daemon, count: int) -> list[Row]:
    """So many processes read a payload at once, each into its own memory."""
    command = [sys.executable, _CROWD, str(daemon.socket), str(count), "big"]
    last, ratios, disturbed = [], [], 0
    for _ in range(setting.rounds):
        quiet = Quiet((os.getpid(), daemon.pid))
        done = subprocess.run(command, env=environment(), capture_output=True, check=True)
        disturbed += not quiet.was()
        seconds: list[float] = json.loads(done.stdout)
        last.append(max(seconds))
        ratios.append(max(seconds) / statistics.median(seconds))
    setting.say(f"    {count} clients: {statistics.median(last) * 1e3:.1f} ms")
    row = Row(
        "sealcar",
        ALL_READ,
        tuple(last),
        size=count * _PART,
        disturbed=disturbed,
        traffic=Traffic(copied=blob.COPIES[blob.OURS] * count * _PART),
        conditions={**of_payload(_PART), "each reads": f"{_PART} bytes"},
        at=float(count),
    )
    return [row, replace(row, stage=SLOWEST, samples=tuple(ratios), unit="", size=0)]


def _size_seconds(setting: Setting) -> float:
    return sum(4 + setting.rounds * (2 + 4 * size / _GIB) for size in _sizes(setting))


PARTS: Final = (
    Part(f"{CURVE}size", "a blob of each size into memory", _size_seconds, _by_size),
    Part(
        f"{CURVE}clients",
        "1 to 64 clients at once",
        lambda setting: 5 + 10.0 * setting.rounds,
        _by_clients,
    ),
    Part(
        f"{CURVE}daemon-workers",
        "1 to N workers of the daemon",
        lambda setting: 5 + 6.0 * setting.rounds,
        _by_workers,
    ),
    Part(f"{CURVE}workers", "1 to 8 workers with one segment", lambda _: 12.0, _by_sharers),
)
