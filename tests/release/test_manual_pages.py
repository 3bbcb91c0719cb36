"""A wheel of a release brings the manual along, for `man sealcar` where it is installed."""

from __future__ import annotations

import os
import zipfile
from pathlib import Path
from typing import Final

import pytest

from sealcar.cli import manual
from sealcar.cli.commands import sealcar

ROOT: Final = Path(__file__).parents[2]
WHEELS: Final = sorted((ROOT / os.environ.get("DIST", "dist")).glob("*.whl"))


def test_there_are_wheels() -> None:
    assert WHEELS


@pytest.mark.parametrize("wheel", WHEELS, ids=lambda path: path.name)
def test_every_command_has_its_page_in_a_wheel(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        # not the folder itself, which has a line of its own
        names = {
            name
            for name in archive.namelist()
            if ".data/data/share/man/man1/" in name and not name.endswith("/")
        }
        first = archive.read(next(name for name in names if name.endswith("/sealcar.1"))).decode()
    assert {Path(name).stem for name in names} == {one.title for one in manual.described(sealcar)}
    assert first.startswith('.TH "SEALCAR" "1"')
