"""A blob out of memory onto the disk: sealed by the daemon, and in plain with the same fsync."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Final

from bench.bulk import Bulk, publish
from bench.circumstances import ALONE
from bench.comparing import Way, compare
from bench.fresh import Program
from bench.parts import Part, Setting
from bench.rows import Row, Traffic
from support.daemon import Daemon

PLAIN: Final = "plain, write and fsync"
OURS: Final = "sealcar"
_WRITER: Final = str(Path(__file__).with_name("writer.py"))


def _run(setting: Setting) -> list[Row]:
    with Daemon(setting.folder) as daemon:
        with daemon.connect() as client:
            publish(client, [Bulk("small", 1)])
        ways = [
            _way(setting, PLAIN, "plain", setting.folder / "written", {}),
            _way(setting, OURS, "sealcar", daemon.socket, {"daemon": daemon.pid}),
        ]
        return compare(ways, setting)


def _way(setting: Setting, name: str, word: str, place: Path, others: dict[str, int]) -> Way:
    command = (sys.executable, _WRITER, word, str(place), str(setting.size))
    # into the page cache; through the ring and sealed it is two copies more
    copies = 3 if others else 1
    threads = {} if others else {"threads": ALONE}
    return Way(
        name,
        Program(command, setting.size, others),
        PLAIN,
        Traffic(copied=copies * setting.size),
        {"durable": "fsync before it ends", **threads},
    )


def _seconds(setting: Setting) -> float:
    return 4 + (setting.rounds + 1) * 2 * (0.5 + 2.5 * setting.size / 2**30)


PARTS: Final = (Part("write", "a blob onto the disk, fsync included", _seconds, _run),)
