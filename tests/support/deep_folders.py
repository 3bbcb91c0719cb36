"""Directories far deeper than Python recurses, and than any path may be."""

from __future__ import annotations

import os
import subprocess
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

DEPTH: Final = 3000


@contextmanager
def deep(path: Path) -> Iterator[None]:
    """Make them, and remove them again: pytest itself couldn't."""
    above = os.open(path.parent, os.O_RDONLY)
    for name in (path.name, *["d"] * DEPTH):
        os.mkdir(name, dir_fd=above)
        inner = os.open(name, os.O_RDONLY, dir_fd=above)
        os.close(above)
        above = inner
    os.close(above)
    try:
        yield
    finally:
        subprocess.run(["/bin/rm", "-rf", path], check=True)
