"""Directories in directories, as deep as a disk takes them, hold up nobody and can be removed."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from support.services import ME, MODEL, Running

from sealcar_server.service.pruning import Wanted
from sealcar_server.service.values import ScopeKey

if TYPE_CHECKING:
    from pathlib import Path

DEPTH = 520  # shutil can still remove it
SCOPE = ScopeKey("ocr", "1", "det", "onnx")


def dig(place: Path) -> None:
    """Make a directory in a directory, and so on."""
    place.mkdir()
    fd = os.open(place, os.O_RDONLY)
    for _ in range(DEPTH):
        os.mkdir("d", dir_fd=fd)
        below = os.open("d", os.O_RDONLY, dir_fd=fd)
        os.close(fd)
        fd = below
    os.close(fd)


def test_a_store_with_deep_directories_opens_and_is_pruned(tmp_path: Path) -> None:
    with Running(tmp_path) as running:
        running.import_()
    dig(running.store_path / ".staging/left")
    dig(running.generation() / "det/deep")
    with Running(tmp_path) as running:
        assert not any((running.store_path / ".staging").iterdir())
        assert running.read(SCOPE) == MODEL
        running.service.pruning.prune(ME, Wanted())
        assert running.service.removing.remove(ME, "ocr", "1") == (1,)
        assert not any((running.store_path / ".staging").iterdir())
