"""A blob from the disk into memory: through the daemon, in plain, and with the key in the process.

Every sample is a new process that is connected and has its key, as an application that loads one
model after another: what is timed is one read, with the allocation of its destination.
"""

from __future__ import annotations

import shutil
import sys
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Final

from bench.bulk import Bulk, publish
from bench.circumstances import ALONE
from bench.comparing import Way, compare
from bench.fresh import Program
from bench.parts import Part, Setting
from bench.reader import STAGE
from bench.rows import Row, Traffic
from support.daemon import Daemon
from support.payload_packages import PACKAGE

from sealcar.benching import caches

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

QNN: Final = "plain, as QNN reads"
PLAIN: Final = "plain, aligned as ORT"
HUGE: Final = "plain, huge pages"
PROCESS: Final = "decrypted in the process"
TMPFS: Final = "decrypted to tmpfs, then as QNN reads"
OURS: Final = "sealcar"
READER: Final = str(Path(__file__).with_name("reader.py"))
_SHM: Final = Path("/dev/shm")  # noqa: S108  (what is measured is this file system)
_CONDITIONS: Final = {
    QNN: {
        "destination": "page + 16, filled with zeros first",
        "huge pages": "not asked for",
        "threads": ALONE,
    },
    PLAIN: {"destination": "page + 64", "huge pages": "not asked for", "threads": ALONE},
    HUGE: {
        "destination": "page + 64",
        "huge pages": "asked for (MADV_HUGEPAGE)",
        "threads": ALONE,
    },
    PROCESS: {
        "destination": "page + 64",
        "huge pages": "asked for (MADV_HUGEPAGE)",
        "threads": "2, AES-256-GCM, the key in the process",
    },
    TMPFS: {"destination": "page + 16, filled with zeros first", "huge pages": "not asked for"},
    OURS: {"destination": "page + 64", "huge pages": "asked for by the client (MADV_HUGEPAGE)"},
}
# how often each byte is copied: from the page cache, out of scratch, out of the ring, out of tmpfs
COPIES: Final = {QNN: 1, PLAIN: 1, HUGE: 1, PROCESS: 1, TMPFS: 4, OURS: 3}
_WORDS: Final = {
    OURS: "sealcar",
    QNN: "qnn",
    PLAIN: "plain",
    HUGE: "huge",
    PROCESS: "process",
    TMPFS: "tmpfs",
}


class Blob:
    """One payload: as a plain file, sealed with a key that everybody knows, and in a package.

    Attributes:
        size: in bytes.
        stayed: the largest part of a file that was in the page cache after it was dropped.
    """

    def __init__(self, folder: Path, daemon: Daemon, size: int) -> None:
        self._made = Bulk("blob", size)
        self.size = size
        self._daemon = daemon
        self._plain, self._sealed = folder / "plain", folder / "sealed"
        self.stayed = 0.0
        self._made.write(self._plain)
        with daemon.connect() as client:
            publish(client, [self._made])

    def ways(self, names: Iterable[str], *, cold: bool = False) -> list[Way]:
        """Return them as they are compared; those of the same size, whatever they need beside."""
        before = self.forget if cold else None
        return [self._way(name, before) for name in names]

    def forget(self) -> None:
        """Have nothing of it in the page cache, and note what stayed there all the same."""
        own = [path for path in (self._plain, self._sealed) if path.exists()]
        stayed = caches.drop([*own, *caches.below(self._daemon.store / PACKAGE)])
        self.stayed = max(self.stayed, stayed)

    def _way(self, name: str, before: Callable[[], None] | None) -> Way:
        word = _WORDS[name]
        path = self._sealed if word == "process" else self._plain
        if word == "process" and not path.exists():
            self._made.seal(path)
        command = [sys.executable, READER, word, str(path)]
        others = {}
        if word in {"sealcar", "tmpfs"}:
            command.append(str(self._daemon.socket))
            others = {"daemon": self._daemon.pid}
        return Way(
            name,
            Program(tuple(command), self.size, others, before or (lambda: None)),
            QNN,
            Traffic(copied=COPIES[name] * self.size),
            {"cache": "warm", **_CONDITIONS[name]},
        )


def _run(setting: Setting, *, cold: bool) -> list[Row]:
    names: list[str] = list(_WORDS)
    rows: list[Row] = []
    if shutil.disk_usage(_SHM).free < 2 * setting.size:
        names.remove(TMPFS)
        rows.append(Row(TMPFS, STAGE, skipped=f"{_SHM} has no room for {setting.size} bytes"))
    with Daemon(setting.folder) as daemon:
        made = Blob(setting.folder, daemon, setting.size)
        rows += compare(made.ways(names, cold=cold), setting)
    if not cold:
        return rows
    cache = {"cache": f"cold: dropped before each sample; {made.stayed:.0%} of a file stayed"}
    return [replace(row, conditions={**row.conditions, **cache}) for row in rows]


def _seconds(setting: Setting, each: float) -> float:
    return 5 + (setting.rounds + 1) * 6 * (0.5 + each * setting.size / 2**30)


PARTS: Final = (
    Part(
        "blob",
        "a blob into memory, page cache warm",
        lambda setting: _seconds(setting, 1.2),
        partial(_run, cold=False),
    ),
    Part(
        "cold",
        "a blob into memory, nothing of it in the page cache",
        lambda setting: _seconds(setting, 2.0),
        partial(_run, cold=True),
    ),
)
