"""What tests of images share: they are built once, each at its first use."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from support import clean_roots
from support.images import Builder

if TYPE_CHECKING:
    from collections.abc import Iterator

ROOT = Path(__file__).parents[2]


def opened(folder: Path) -> Path:
    """Let other users get to a folder of pytest's."""
    for each in (folder, *folder.parents[:2]):
        each.chmod(0o755)
    return folder


@pytest.fixture(scope="session")
def builder(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Builder]:
    folder = opened(tmp_path_factory.mktemp("roots"))
    base = clean_roots.debian(folder)
    yield Builder(ROOT / "Dockerfile", base, folder, clean_roots.reaching())
    # gigabytes
    shutil.rmtree(folder)


@pytest.fixture
def open_path(tmp_path: Path) -> Path:
    """Give a folder that every user gets to."""
    return opened(tmp_path)
