"""Many rotations of one key, and what they may leave behind."""

from __future__ import annotations

from typing import TYPE_CHECKING

from support.services import MODEL, Running

from sealcar_server.service.rewrapping import Wanted
from sealcar_server.service.values import ScopeKey

if TYPE_CHECKING:
    from pathlib import Path


def files(root: Path) -> list[Path]:
    return [path for path in root.rglob("*") if path.is_file()]


def size(running: Running) -> int:
    found = files(running.root / "store") + files(running.root / "state")
    return sum(path.stat().st_size for path in found)


def turn(running: Running) -> None:
    running.service.keys.rotate()
    assert running.service.keys.rewrap(Wanted(), lambda *_: None).packages == 1


def leave_nothing(running: Running, rotations: int) -> None:
    """Rotate so often, with one package in the store, and check what is there then."""
    turn(running)
    before, count = size(running), len(files(running.root))
    for _ in range(rotations):
        turn(running)
    newest = rotations + 2
    assert running.store.numbers("ocr", "1") == [newest, newest - 1]
    assert len(files(running.root)) == count
    # a few more digits in the numbers
    assert size(running) < before + 200
    assert len((running.root / "kek").read_text().splitlines()) == rotations + 3
    assert running.read(ScopeKey("ocr", "1", "det", "onnx")) == MODEL
