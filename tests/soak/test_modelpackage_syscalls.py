"""Commits that are killed by the kernel on entering a system call, each call of each kind once."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from support.package_survivors import check_saved, check_survivor, make_template, names, view

from sealcar import modelpackage

if TYPE_CHECKING:
    from collections.abc import Iterator

TESTS = Path(__file__).parent.parent
CALLS = (
    *("mkdir", "mkdirat", "rename", "renameat", "renameat2", "link", "linkat", "unlink"),
    *("unlinkat", "rmdir", "write", "sendfile", "fsync", "symlinkat", "fchmod"),
)
pytestmark = [
    pytest.mark.skipif(shutil.which("strace") is None, reason="needs strace"),
    pytest.mark.timeout(3600),
]


@pytest.fixture(scope="module")
def template(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_template(tmp_path_factory.mktemp("template").resolve())


def run(kind: str, base: Path, *tracer: str) -> int:
    program = [*tracer, sys.executable, "-m", "support.package_crashing", kind, str(base)]
    environment = os.environ | {"PYTHONDONTWRITEBYTECODE": "1"}
    ran = subprocess.run(program, cwd=TESTS, check=False, capture_output=True, env=environment)
    return ran.returncode


def killed(kind: str, template: Path, tmp_path: Path) -> Iterator[Path]:
    """Yield a directory for each call that the writer was killed at."""
    for call in CALLS:
        status, count = 1, 0
        while status != 0:
            count += 1
            base = shutil.copytree(template, tmp_path / f"{call}{count}", symlinks=True)
            inject = f"inject={call}:signal=KILL:when={count}"
            status = run(kind, base, "strace", "-f", "-o", "/dev/null", "-e", inject)
            assert status in (0, -9), "strace can't trace"
            yield base
            shutil.rmtree(base)


@pytest.fixture
def done(template: Path, tmp_path: Path, kind: str) -> Path:
    made = shutil.copytree(template, tmp_path / "done", symlinks=True)
    assert run(kind, made) == 0
    return made


@pytest.mark.parametrize("kind", ["commit", "commit_one", "dense"])
def test_killed_on_entering_any_system_call_a_commit_is_whole(
    template: Path, tmp_path: Path, done: Path, kind: str
) -> None:
    old, new = view(template / "p"), view(done / "p")
    trees = {old: names(template / "p"), new: names(done / "p")}
    found = [check_survivor(b / "p", old, new, trees) for b in killed(kind, template, tmp_path)]
    assert set(found) == {old, new}
    assert len(found) > len(CALLS)


@pytest.mark.parametrize("kind", ["save"])
def test_killed_on_entering_any_system_call_a_save_leaves_all_or_nothing(
    template: Path, tmp_path: Path, done: Path, kind: str
) -> None:
    saved = view(done / "copy")
    for base in killed(kind, template, tmp_path):
        check_saved(base, saved)


@pytest.mark.parametrize("kind", ["prune"])
def test_killed_on_entering_any_system_call_a_prune_takes_nothing_that_is_needed(
    template: Path, tmp_path: Path, done: Path, kind: str
) -> None:
    old, new = view(template / "p"), view(done / "p")
    for base in killed(kind, template, tmp_path):
        # the program commits first, and may be killed in that
        modelpackage.prune(base / "p")
        assert view(base / "p") in (old, new)
