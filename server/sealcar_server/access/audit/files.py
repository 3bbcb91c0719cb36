"""The files of the log, and how the newest one ends."""

from __future__ import annotations

import hashlib
import os
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from sealcar.errors import NotAuthenticError
from sealcar_server.access.audit.chain import Position, parse

if TYPE_CHECKING:
    from pathlib import Path

_NAME: Final = re.compile(r"audit-\d{12}\.jsonl")
NONE: Final = Position(0, "")


@dataclass(frozen=True)
class Tail:
    """How a log ends.

    Attributes:
        file: the newest; None if there is none.
        size: in bytes.
        last: of the whole lines.
        whole: bytes of the newest file up to the end of its last whole line.
        rest: what follows them: a line that was cut, by a crash or otherwise.
    """

    file: Path | None
    size: int
    last: Position
    whole: int
    rest: bytes

    def previous(self) -> dict[str, Any]:
        """Return what the next line says of the one before it."""
        name = "" if self.file is None else self.file.name
        return {"file": name, "sequence": self.last.sequence, "mac": self.last.mac}

    def torn(self) -> dict[str, Any]:
        """Return what the next line says of the line that was cut."""
        digest = hashlib.sha256(self.rest).hexdigest()
        return {"at": self.whole, "bytes": len(self.rest), "sha256": digest}


def name_of(sequence: int) -> str:
    """Return the name of a file whose first line has this sequence."""
    return f"audit-{sequence:012}.jsonl"


def tail_of(folder: Path) -> Tail:
    """Look how the log in a folder ends.

    Raises:
        OSError: it can't be read.
    """
    files = sorted(path for path in folder.iterdir() if _NAME.fullmatch(path.name))
    if not files:
        return Tail(None, 0, NONE, 0, b"")
    data = files[-1].read_bytes()
    whole, last = _last_line(data)
    for older in reversed(files[:-1]):
        if last != NONE:
            break
        _, last = _last_line(older.read_bytes())
    return Tail(files[-1], len(data), last, whole, data[whole:])


def open_for_writing(path: Path, *, new: bool) -> int:
    """Return a descriptor that appends, of a file for the daemon's user only.

    Raises:
        OSError: it can't be opened, or a new one is there already.
    """
    flags = os.O_WRONLY | os.O_APPEND | os.O_CLOEXEC | os.O_NOFOLLOW
    fd = os.open(path, flags | (os.O_CREAT | os.O_EXCL if new else 0), 0o600)
    if new:
        folder = os.open(path.parent, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            os.fsync(folder)
        finally:
            os.close(folder)
    return fd


def _last_line(data: bytes) -> tuple[int, Position]:
    end = data.rfind(b"\n") + 1
    while end:
        start = data.rfind(b"\n", 0, end - 1) + 1
        try:
            return end, parse(data[start : end - 1])[2]
        except NotAuthenticError:
            end = start
    return 0, NONE
