"""How a store scales: listing, opening and the first byte with 1 to 10,000 packages in it."""

from __future__ import annotations

import sys
import tempfile
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Final

from bench.bulk import Bulk, publish
from bench.comparing import Way, compare
from bench.fresh import Program
from bench.parts import Part, Setting
from bench.small_reader import SMALL
from bench.summary import CURVE
from support.daemon import Daemon
from support.many_packages import fill
from support.payload_packages import PACKAGE

if TYPE_CHECKING:
    from bench.rows import Row

_COUNTS: Final = (1, 10, 100, 1000, 10_000)
_PROGRAM: Final = str(Path(__file__).with_name("store_reader.py"))
_ROLES: Final = {"list": "list all packages", "read": "open one and read"}
_FIRST: Final = "list all packages, for the first time"


def _run(setting: Setting) -> list[Row]:
    rows = []
    for count in _COUNTS[:2] if setting.quick else _COUNTS:
        setting.say(f"  {count} packages")
        with tempfile.TemporaryDirectory(dir=setting.folder) as folder:
            found = _with(Path(folder), count, setting)
        rows += [replace(row, at=float(count), size=0) for row in found]
    return rows


def _with(folder: Path, count: int, setting: Setting) -> list[Row]:
    with Daemon(folder) as daemon:
        with daemon.connect() as client:
            publish(client, [Bulk("small", SMALL)])
        fill(daemon.store, PACKAGE, count - 1)
        # afterwards the daemon remembers what manifests come to
        first = compare([_way("list", daemon, _FIRST)], replace(setting, rounds=1), watch=False)
        ways = [_way(role, daemon, name) for role, name in _ROLES.items()]
        return first + compare(ways, setting, watch=False)


def _way(role: str, daemon: Daemon, name: str) -> Way:
    command = (sys.executable, _PROGRAM, str(daemon.socket), role)
    return Way(name, Program(command, SMALL, {"daemon": daemon.pid}))


def _seconds(setting: Setting) -> float:
    return 25 + setting.rounds * 2 * 6 * 0.5


PARTS: Final = (Part(f"{CURVE}store", "a store of 1 to 10,000 packages", _seconds, _run),)
