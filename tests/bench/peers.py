"""Others that read the same bytes sealed, with their keys in the reading process.

What isn't there is skipped with the reason. Each one's file is in the page cache, as it is sealed,
and then nothing of it.
"""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import Final, NamedTuple

from bench import blob
from bench.blob import Blob
from bench.comparing import Way, compare
from bench.fresh import Program
from bench.gocryptfs import Mount, NotMountedError, mounted
from bench.parts import Part, Setting
from bench.reader import STAGE
from bench.rows import Row
from support.daemon import Daemon

from sealcar.benching import caches

_PYTHON: Final = Path(__file__).parents[2] / ".venv-bench" / "bin" / "python"
_PROGRAM: Final = str(Path(__file__).with_name("peer_program.py"))
_MODULES: Final = ("tink", "cryptotensors", "pyrage")
_NO_PYTHON: Final = "no environment of the bench's own; `make bench` makes it"
_MOST: Final = 256 << 20
GOCRYPTFS: Final = "gocryptfs"
_ABOUT: Final = {
    "tink": "streaming AEAD, AES256_GCM_HKDF_1MB, Python's stream read to its end",
    "cryptotensors": "one tensor of bytes in AES-256-GCM",
    "pyrage": "age in the process, X25519; from bytes to bytes",
    "age": "the command, X25519; through a pipe",
}
_AS_IT_COMES: Final = "as many as it takes by itself"
_IN_PROCESS: Final = "in the process that reads"


class Missing(NamedTuple):
    """Why a peer isn't measured."""

    reason: str


def _run(setting: Setting) -> list[Row]:
    size = min(setting.size, _MOST)
    with ExitStack() as until_the_end:
        daemon = until_the_end.enter_context(Daemon(setting.folder))
        ways = Blob(setting.folder, daemon, size).ways([blob.QNN, blob.PLAIN, blob.OURS])
        plain, skipped = setting.folder / "plain", []
        for name, found in _found().items():
            if isinstance(found, Missing):
                skipped.append(Row(name, STAGE, skipped=found.reason))
            else:
                ways.append(_way(name, found, _sealed(name, plain), size))
        try:
            mount = until_the_end.enter_context(mounted(setting.folder, plain))
            ways.append(_gocryptfs(mount, size))
        except NotMountedError as error:
            skipped.append(Row(GOCRYPTFS, STAGE, skipped=str(error)))
        rows = compare(ways, setting)
        cold = [] if setting.quick else [_cold(way, setting.folder) for way in ways]
        return rows + compare(cold, setting) + skipped


def _cold(way: Way, folder: Path) -> Way:
    """Return a way in whose folder nothing is in the page cache when it begins."""
    return replace(
        way,
        name=f"{way.name}, cold",
        program=replace(way.program, before=lambda: _forget(*caches.below(folder))),
        reference=f"{way.reference}, cold",
        conditions={**way.conditions, "cache": "cold: dropped before each sample"},
    )


def _found() -> dict[str, str | Missing]:
    """Return each peer's version, or why it isn't there."""
    if not _PYTHON.exists():
        return dict.fromkeys(_ABOUT, Missing(_NO_PYTHON))
    versions = json.loads(_said(str(_PYTHON), _PROGRAM, "versions"))
    found = {name: versions.get(name) or Missing(f"{name} isn't installed") for name in _MODULES}
    age = shutil.which("age") and shutil.which("age-keygen")
    if not age:
        return {**found, "age": Missing("age isn't installed; on Debian: apt-get install age")}
    return {**found, "age": _said("age", "--version").strip()}


def _sealed(name: str, plain: Path) -> Path:
    """Have the plain file sealed by a peer, and return the directory of what it needs."""
    place = plain.with_name(name)
    place.mkdir()
    _said(str(_PYTHON), _PROGRAM, "make", name, str(plain), str(place))
    return place


def _way(name: str, version: str, place: Path, size: int) -> Way:
    command = (str(_PYTHON), _PROGRAM, "read", name, str(place))
    return Way(
        name,
        Program(command, size),
        blob.QNN,
        conditions={
            "version": version,
            "cache": "warm",
            "way": _ABOUT[name],
            "key": _IN_PROCESS,
            "threads": _AS_IT_COMES,
        },
    )


def _gocryptfs(mount: Mount, size: int) -> Way:
    command = (sys.executable, blob.READER, "plain", str(mount.file))
    program = Program(command, size, {GOCRYPTFS: mount.pid}, lambda: _forget(mount.file))
    conditions = {
        "version": mount.version,
        "cache": "warm as it is sealed; deciphered, dropped before each sample",
        "way": "a mounted directory, read like a plain file",
        "key": "in a process beside it, whose files every process of the user may read",
        "threads": _AS_IT_COMES,
    }
    return Way(GOCRYPTFS, program, blob.QNN, conditions=conditions)


def _forget(*files: Path) -> None:
    caches.drop(files)


def _said(*command: str) -> str:
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout


def _seconds(setting: Setting) -> float:
    turns = (1 if setting.quick else 2) * (setting.rounds + 1)
    return 10 + turns * 8 * (0.5 + 1.5 * min(setting.size, _MOST) / 2**30)


PARTS: Final = (Part("peers", "the same bytes, sealed by others", _seconds, _run),)
