"""Imports that are killed by the kernel on entering a system call, each call of each kind once."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from support.asset_packages import AssetPackage
from support.services import ME, Running

if TYPE_CHECKING:
    from collections.abc import Iterator

TESTS = Path(__file__).parent.parent
CALLS = (
    *("mkdir", "mkdirat", "rename", "renameat", "renameat2", "link", "linkat", "unlink"),
    *("unlinkat", "rmdir", "write", "pwrite64", "pwritev", "ftruncate", "sync_file_range"),
    *("fsync", "fdatasync", "flock"),
)
pytestmark = [
    pytest.mark.skipif(shutil.which("strace") is None, reason="needs strace"),
    pytest.mark.timeout(3600),
]


def killed(kind: str, template: Path, tmp_path: Path) -> Iterator[Path]:
    """Yield a store for each call that the import was killed at, and one that was left alone."""
    environment = os.environ | {"PYTHONDONTWRITEBYTECODE": "1"}
    for call in CALLS:
        status, count = 1, 0
        while status != 0:
            count += 1
            root = shutil.copytree(template, tmp_path / f"{call}{count}")
            inject = f"inject={call}:signal=KILL:when={count}"
            program = ["strace", "-f", "-o", "/dev/null", "-e", inject, sys.executable]
            program += ["-m", "support.crashing", kind, str(root)]
            ran = subprocess.run(
                program, cwd=TESTS, check=False, capture_output=True, env=environment
            )
            status = ran.returncode
            assert status in (0, -9), ran.stderr
            yield root
            shutil.rmtree(root)


@pytest.mark.parametrize("kind", ["import", "assets"])
def test_killed_on_entering_any_system_call_an_import_leaves_all_of_it_or_nothing(
    tmp_path: Path, kind: str
) -> None:
    template = tmp_path / "template"
    with Running(template) as running:
        AssetPackage.with_weights().import_into(running)
    found = []
    for root in killed(kind, template, tmp_path):
        with Running(root) as running:
            there = running.store.versions("ocr")
            for version in there:
                running.packages.verify(ME, "ocr", version, 0, lambda *_: None)
            assert not any((running.store_path / ".staging").iterdir())
            found.append("2" in there)
    assert set(found) == {True, False}
    assert len(found) > len(CALLS)
