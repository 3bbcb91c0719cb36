"""A store that a daemon filled, for whoever attacks it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from support.services import Running
from support.tampering import FILES

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """Give a directory whose daemon has imported two packages and stopped."""
    with Running(tmp_path / "daemon") as running:
        running.import_(payloads=FILES)
        running.import_("det-only", payloads=FILES)
    return tmp_path / "daemon"


@pytest.fixture
def generation(root: Path) -> Path:
    return root / "store/ocr/1/g/1"
