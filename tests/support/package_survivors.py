"""What a package says before and after a change, and whether one in between is one of them."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from support import package_oracle

from sealcar import modelpackage

if TYPE_CHECKING:
    from pathlib import Path


def write(file: Path, value: object) -> None:
    """Write a JSON file."""
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_bytes(modelpackage.document(value))  # type: ignore[arg-type]


def make_template(base: Path) -> Path:
    """Make a package with components of every form, and two directories that can be assets."""
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
    """Return all paths in a directory."""
    return {str(path.relative_to(root)) for path in root.rglob("*")}


def with_removed(new: str, old: str) -> str:
    """Return what is said when an asset that is to go is still there."""
    said = json.loads(new)
    uris = [asset["uri"] for asset in said["shared_assets"]]
    for asset in json.loads(old)["shared_assets"]:
        if asset["uri"] not in uris:
            said["shared_assets"].append(asset)
    said["shared_assets"].sort(key=lambda asset: asset["uri"])
    return json.dumps(said)


def check_survivor(root: Path, old: str, new: str, trees: dict[str, set[str]]) -> str:
    """Check that a package is the old or the new one, and exactly that after a prune; return it."""
    found = view(root)
    assert found in (old, new, with_removed(new, old)), root
    if package_oracle.AVAILABLE:
        rules = modelpackage.Rules()
        assert package_oracle.native_info(root, rules) == package_oracle.our_info(root, rules)
    modelpackage.prune(root)
    expected = old if found == old else new
    assert view(root) == expected
    assert names(root) == trees[expected]
    return expected


def check_saved(base: Path, saved: str) -> None:
    """Check that a save left all or nothing, and what another one and a prune clear away."""
    before = view(base / "p")
    if (base / "copy").exists():
        assert view(base / "copy") == saved
    else:
        modelpackage.edit(base / "p").save_as(base / "copy")
    modelpackage.prune(base / "copy")
    assert view(base / "copy") == saved
    assert view(base / "p") == before
    assert {path.name for path in base.iterdir()} == {"p", "copy", "asset", "gone"}
