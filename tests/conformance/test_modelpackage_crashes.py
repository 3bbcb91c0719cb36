"""A writer of packages that is killed at any step leaves the old package or the new one."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from support import package_crashing, package_oracle

from sealcar import modelpackage

TESTS = Path(__file__).parent.parent


def write(file: Path, value: object) -> None:
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_bytes(modelpackage.document(value))  # type: ignore[arg-type]


@pytest.fixture(scope="module")
def template(tmp_path_factory: pytest.TempPathFactory) -> Path:
    base = tmp_path_factory.mktemp("template").resolve()
    root = base / "p"
    for name in ("v/m", "old/m", "d/v/m", "parts/x/deep/m", "kept/m"):
        (root / name).parent.mkdir(parents=True)
        (root / name).write_text(name * 20)
    write(root / "d" / "component.json", {"variants": {"v": {}}})
    write(root / "parts" / "e.json", {"variants": {"x": {}}})
    write(
        root / "manifest.json",
        {
            "schema_version": "1.0",
            "package_version": "1",
            "components": {
                "main": {"variants": {"v": {}, "old": {}}},
                "d": "d",
                "e": "parts/e.json",
            },
        },
    )
    for name in ("asset", "gone"):
        (base / name / "deep").mkdir(parents=True)
        (base / name / "deep" / "f").write_text(name)
        (base / name / "g").write_text("")
    with modelpackage.edit(root) as editor:
        editor.add_shared_asset(base / "gone")
    return base


def view(root: Path) -> str:
    """Return all that a package says, and the content of its assets."""
    with modelpackage.open(root) as package:
        said: dict[str, Any] = modelpackage.info(package)
        for asset in said["shared_assets"]:
            asset["resolved_path"] = modelpackage.hash_directory(asset["resolved_path"])
        said["shared_assets"].sort(key=lambda asset: asset["uri"])
    return json.dumps(said).replace(str(root), "$")


def names(root: Path) -> set[str]:
    return {str(path.relative_to(root)) for path in root.rglob("*")}


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


def with_removed(new: str, old: str) -> str:
    """Return what is said when an asset that is to go is still there."""
    said = json.loads(new)
    uris = [asset["uri"] for asset in said["shared_assets"]]
    for asset in json.loads(old)["shared_assets"]:
        if asset["uri"] not in uris:
            said["shared_assets"].append(asset)
    said["shared_assets"].sort(key=lambda asset: asset["uri"])
    return json.dumps(said)


@pytest.mark.parametrize("kind", ["commit", "commit_one", "dense"])
def test_after_any_step_of_a_commit_the_old_package_or_the_new_one_opens(
    template: Path, tmp_path: Path, kind: str
) -> None:
    old, new = view(template / "p"), view(done(kind, template, tmp_path / "done") / "p")
    trees = {old: names(template / "p"), new: names(tmp_path / "done" / "p")}
    # a move into the manifest changes nothing that is said
    assert old != new or kind == "dense"
    seen = set()
    for base in killed(kind, template, tmp_path / "killed"):
        found = view(base / "p")
        assert found in (old, new, with_removed(new, old)), base
        if package_oracle.AVAILABLE:
            rules = modelpackage.Rules()
            there = package_oracle.native_info(base / "p", rules)
            assert there == package_oracle.our_info(base / "p", rules)
        modelpackage.prune(base / "p")
        expected = old if found == old else new
        assert view(base / "p") == expected
        assert names(base / "p") == trees[expected]
        seen.add(expected)
        with modelpackage.edit(base / "p") as editor:
            editor.set_metadata(description="goes on")
    assert seen == {old, new} or kind != "commit"


def test_after_any_step_of_a_save_there_is_all_of_it_or_nothing(
    template: Path, tmp_path: Path
) -> None:
    new = view(done("save", template, tmp_path / "done") / "copy")
    for base in killed("save", template, tmp_path / "killed"):
        if (base / "copy").exists():
            assert view(base / "copy") == new
        else:
            modelpackage.edit(base / "p").save_as(base / "copy")
        modelpackage.prune(base / "copy")
        assert view(base / "copy") == new
        assert view(base / "p") == view(template / "p")
        assert {path.name for path in base.iterdir()} == {"p", "copy", "asset", "gone"}


def test_after_any_step_of_a_prune_the_package_is_the_same(template: Path, tmp_path: Path) -> None:
    done("prune", template, tmp_path / "done")
    new = view(tmp_path / "done" / "p")
    assert not (tmp_path / "done" / "p" / "parts").exists()
    for base in killed("prune", template, tmp_path / "killed"):
        assert view(base / "p") == new
        modelpackage.prune(base / "p")
        assert view(base / "p") == new
