"""A writer of packages that is killed at any step leaves the old package or the new one."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from support import package_crashing
from support.package_survivors import check_saved, check_survivor, make_template, names, view

from sealcar import modelpackage

TESTS = Path(__file__).parent.parent


@pytest.fixture(scope="module")
def template(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_template(tmp_path_factory.mktemp("template").resolve())


def done(kind: str, template: Path, base: Path) -> Path:
    """Return a directory in which the writer was not killed."""
    shutil.copytree(template, base, symlinks=True)
    kept = {name: getattr(os, name) for name in package_crashing.STEPS}
    try:
        package_crashing.KINDS[kind](base, 1 << 30)
    finally:
        for name, real in kept.items():
            setattr(os, name, real)
    return base


def killed(kind: str, template: Path, target: Path) -> list[Path]:
    program = [sys.executable, "-m", "support.package_crashing", kind, str(template), str(target)]
    ran = subprocess.run(program, cwd=TESTS, check=True, capture_output=True, text=True)
    steps = int(ran.stdout)
    assert steps > 3
    return [target / str(step) for step in range(steps)]


@pytest.mark.parametrize("kind", ["commit", "commit_one", "commit_removal", "dense"])
def test_after_any_step_of_a_commit_the_old_package_or_the_new_one_opens(
    template: Path, tmp_path: Path, kind: str
) -> None:
    old, new = view(template / "p"), view(done(kind, template, tmp_path / "done") / "p")
    trees = {old: names(template / "p"), new: names(tmp_path / "done" / "p")}
    # a move into the manifest changes nothing that is said
    assert old != new or kind == "dense"
    seen = set()
    for base in killed(kind, template, tmp_path / "killed"):
        seen.add(check_survivor(base / "p", old, new, trees))
        with modelpackage.edit(base / "p") as editor:
            editor.set_metadata(description="goes on")
    assert seen == {old, new} or kind != "commit"


def test_after_any_step_of_a_save_there_is_all_of_it_or_nothing(
    template: Path, tmp_path: Path
) -> None:
    new = view(done("save", template, tmp_path / "done") / "copy")
    for base in killed("save", template, tmp_path / "killed"):
        check_saved(base, new)
        assert view(base / "p") == view(template / "p")


def test_after_any_step_of_a_prune_the_package_is_the_same(template: Path, tmp_path: Path) -> None:
    done("prune", template, tmp_path / "done")
    new = view(tmp_path / "done" / "p")
    assert not (tmp_path / "done" / "p" / "parts").exists()
    for base in killed("prune", template, tmp_path / "killed"):
        assert view(base / "p") == new
        modelpackage.prune(base / "p")
        assert view(base / "p") == new
