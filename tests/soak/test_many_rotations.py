"""A key that is rotated for decades."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from support.rotating import leave_nothing
from support.services import Running

if TYPE_CHECKING:
    from pathlib import Path


@pytest.mark.timeout(1800)
def test_a_thousand_rotations_leave_bounded_metadata(tmp_path: Path) -> None:
    with Running(tmp_path) as running:
        running.import_()
        leave_nothing(running, 1000)
