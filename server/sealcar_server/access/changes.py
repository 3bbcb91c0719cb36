"""Whether a file is still the one that was read."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeAlias

if TYPE_CHECKING:
    from pathlib import Path

Signature: TypeAlias = tuple[int, int, int, int, int]


def signature(path: Path) -> Signature | None:
    """Return what differs once a file was changed or replaced; None: there is none.

    Links are followed, so a swapped link is a change too.
    """
    try:
        status = path.stat()
    except OSError:
        return None
    return (
        status.st_dev,
        status.st_ino,
        status.st_size,
        status.st_mtime_ns,
        status.st_ctime_ns,
    )
