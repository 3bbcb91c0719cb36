"""Folders of files in memory that hold plaintext: nothing of them outlives who made them."""

from __future__ import annotations

import os
import shutil
import tempfile
from pathlib import Path

from sealcar.benching.jobs import MEMORY, PREFIX


def folder() -> tempfile.TemporaryDirectory[str]:
    """Make one of this process's; it is gone after its `with` block."""
    return tempfile.TemporaryDirectory(dir=MEMORY, prefix=_prefix(os.getpid()))


def remove(pid: int) -> None:
    """Remove what a process left that had to be killed."""
    for left in Path(MEMORY).glob(f"{_prefix(pid)}*"):
        shutil.rmtree(left, ignore_errors=True)


def _prefix(pid: int) -> str:
    return f"{PREFIX}{pid}-"
