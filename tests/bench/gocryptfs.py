"""gocryptfs as a peer: a mounted directory, in which a plain file is sealed below.

A file of the mount is dropped from the page cache before each sample, or what was deciphered once
would be read like a plain file.
"""

from __future__ import annotations

import shutil
import subprocess
import time
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Final, NamedTuple

from bench.interrupts import held

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

_PATIENCE: Final = 10.0
_UNMOUNTERS: Final = (("fusermount3", "-u"), ("fusermount", "-u"), ("umount",))


class NotMountedError(Exception):
    """It can't be mounted here, and why."""


class Mount(NamedTuple):
    """A mount: who serves it, the file in it, and what is mounted, in words."""

    pid: int
    file: Path
    version: str


@contextmanager
def mounted(folder: Path, plain: Path) -> Iterator[Mount]:
    """Have a copy of a plain file in a mount; it is gone afterwards.

    Raises:
        NotMountedError: it isn't installed, or the system doesn't let it.
    """
    command = shutil.which("gocryptfs")
    if not command:
        raise NotMountedError("gocryptfs isn't installed; on Debian: apt-get install gocryptfs")
    sealed, place, word = folder / "gocryptfs", folder / "mount", folder / "passphrase"
    sealed.mkdir()
    place.mkdir()
    word.write_text("everybody knows it\n")
    options = ("-q", "-nosyslog", "-passfile", str(word))
    # the least cost of scrypt: a mount is no part of what is measured
    made = _said(command, *options, "-init", "-scryptn", "10", str(sealed))
    if made.returncode:
        raise NotMountedError(f"gocryptfs can't make a directory: {made.stderr.strip()}")
    with _serving((command, *options, "-fg", str(sealed), str(place)), place) as process:
        shutil.copyfile(plain, place / "plain")
        version = _said(command, "-version").stdout.strip()
        yield Mount(process.pid, place / "plain", version)


@contextmanager
def _serving(command: tuple[str, ...], place: Path) -> Iterator[subprocess.Popen[str]]:
    process: subprocess.Popen[str] | None = None
    try:
        with held():
            process = subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.PIPE,
                text=True,
                # an interrupt from a terminal is for us, and we unmount
                process_group=0,
            )
        deadline = time.monotonic() + _PATIENCE
        while not place.is_mount():
            if process.poll() is not None or time.monotonic() > deadline:
                process.kill()
                assert process.stderr
                reason = process.stderr.read().strip()
                raise NotMountedError(f"gocryptfs can't mount here: {reason}")
            time.sleep(0.02)
        yield process
    finally:
        _unmount(place)
        if process:
            process.terminate()
            process.communicate()


def _unmount(place: Path) -> None:
    for command in _UNMOUNTERS:
        with suppress(FileNotFoundError):
            if not place.is_mount() or not _said(*command, str(place)).returncode:
                break


def _said(*command: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(command, capture_output=True, text=True, check=False)
