"""How a store's file system keeps payloads that didn't change: by link, by reflink, or twice."""

from __future__ import annotations

import fcntl
import os
import stat
import tempfile
from pathlib import Path
from typing import Final

from sealcar.doctor.findings import Finding, State

_FICLONE: Final = 0x40049409
# no package's name begins so, and no daemon looks at it
_PREFIX: Final = ".doctor-"


def store(path: Path) -> list[Finding]:
    """Look at a store's directory: who can write there, and how it keeps what didn't change."""
    try:
        found = path.stat()
    except OSError as error:
        told = f"{path} can't be looked at: {error.strerror}."
        return [Finding("store", State.PROBLEM, told, "name the directory of the store")]
    if not stat.S_ISDIR(found.st_mode):
        told = f"{path} is no directory."
        return [Finding("store", State.PROBLEM, told, "name the directory of the store")]
    return [_owned(path, found), _kept(path)]


def _owned(path: Path, found: os.stat_result) -> Finding:
    told = f"{path} is of uid {found.st_uid}, mode {stat.S_IMODE(found.st_mode):04o}"
    if found.st_mode & (stat.S_IWGRP | stat.S_IWOTH):
        return Finding(
            "store",
            State.PROBLEM,
            f"{told}: others than its owner can take packages away.",
            f"chmod go-w {path}",
        )
    return Finding("store", State.OK, f"{told}: only its owner can write there.")


def _kept(path: Path) -> Finding:
    try:
        with tempfile.TemporaryDirectory(prefix=_PREFIX, dir=path) as directory:
            how = _how(Path(directory))
    except OSError as error:
        return Finding(
            "unchanged",
            State.UNKNOWN,
            f"How unchanged payloads are kept can't be tried in {path}: {error.strerror}.",
            "run this as the daemon's user",
        )
    if how == "copy":
        return Finding(
            "unchanged",
            State.WEAKER,
            "A new generation copies even what didn't change (copy), which takes time and disk.",
            "keep the store on a file system with hard links or reflinks: ext4, xfs, btrfs",
        )
    return Finding(
        "unchanged", State.OK, f"A new generation shares what didn't change with the old ({how})."
    )


def _how(directory: Path) -> str:
    source = directory / "source"
    source.write_bytes(b"sealcar")
    try:
        os.link(source, directory / "link")
    except OSError:
        pass
    else:
        return "link"
    with source.open("rb") as old, directory.joinpath("copy").open("wb") as new:
        try:
            fcntl.ioctl(new, _FICLONE, old.fileno())
        except OSError:
            return "copy"
    return "reflink"
