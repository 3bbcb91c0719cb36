"""Saving a package elsewhere yields all of it; pruning deletes nothing that is needed."""

from __future__ import annotations

import os
import time
from typing import TYPE_CHECKING

import pytest

from sealcar import modelpackage
from sealcar.modelpackage import (
    AssetMismatchError,
    ConfinementError,
    FileAccessError,
    MissingError,
    SchemaError,
    StateError,
    WriteMode,
    writing,
)

if TYPE_CHECKING:
    from pathlib import Path

ABSENT = "sha256:" + "ab" * 32


def write(file: Path, value: object) -> None:
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_bytes(modelpackage.document(value))  # type: ignore[arg-type]


@pytest.fixture
def package(tmp_path: Path) -> Path:
    root = tmp_path / "p"
    for name in ("cpu/model.onnx", "d/v/model.onnx", "d/v/deep/data", "unused/x"):
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(name)
    (root / "d" / "v" / "info.json").write_text('{"a": 1}')
    info = {"executor_info": {"ort": "info.json"}}
    write(root / "d" / "component.json", {"variants": {"v": info}})
    write(
        root / "manifest.json",
        {"schema_version": "1.0", "components": {"main": {"variants": {"cpu": {}}}, "d": "d"}},
    )
    return root


def files(root: Path) -> dict[str, bytes]:
    return {str(p.relative_to(root)): p.read_bytes() for p in root.rglob("*") if p.is_file()}


def relative(package: modelpackage.Package) -> str:
    return str(modelpackage.info(package)).replace(str(package.root), "")


def save(package: Path, target: Path, mode: WriteMode = WriteMode.PRESERVE) -> modelpackage.Package:
    editor = modelpackage.edit(package)
    editor.save_as(target, mode)
    return modelpackage.open(target)


def test_all_that_a_package_uses_is_saved_and_nothing_else(package: Path, tmp_path: Path) -> None:
    saved = save(package, tmp_path / "deep" / "copy")
    assert relative(saved) == relative(modelpackage.open(package))
    expected = files(package)
    del expected["unused/x"]
    assert files(saved.root) == expected


def test_the_editor_goes_on_in_the_new_place(package: Path, tmp_path: Path) -> None:
    with modelpackage.edit(package) as editor:
        editor.save_as(tmp_path / "copy")
        editor.set_metadata(name="copy")
    assert modelpackage.open(package).name is None
    assert modelpackage.open(tmp_path / "copy").name == "copy"


def test_what_an_installed_package_has_outside_is_brought_inside(
    package: Path, tmp_path: Path
) -> None:
    package.rename(tmp_path / "far")
    root = tmp_path / "installed"
    root.mkdir()
    (tmp_path / "far" / "d" / "v" / "outer.json").write_text("{}")
    body = {
        "variant_directory": str(tmp_path / "far" / "cpu"),
        "executor_info": {"ort": "../d/v/outer.json", "own": str(tmp_path / "far/d/v/info.json")},
    }
    components = {"main": {"variants": {"cpu": body}}, "d": "../far/d"}
    write(
        root / "manifest.json",
        {"schema_version": "1.0", "layout": "installed", "components": components},
    )
    saved = save(root, tmp_path / "copy")
    (tmp_path / "far").rename(tmp_path / "gone")
    with modelpackage.open(tmp_path / "copy") as found:
        assert relative(found) == relative(saved)
        variant = found.components["main"].variants["cpu"]
        assert variant.directory
        assert (variant.directory / "model.onnx").read_text() == "cpu/model.onnx"
        assert str(tmp_path / "far") not in (tmp_path / "copy" / "manifest.json").read_text()
        assert found.components["d"].variants["v"].executor_info["ort"].value == {"a": 1}


def test_a_portable_package_with_external_paths_becomes_one_without(
    package: Path, tmp_path: Path
) -> None:
    (tmp_path / "far").mkdir()
    (tmp_path / "far" / "model.onnx").write_text("far")
    variants = {"x": {"variant_directory": "../../far"}, "from_outside_1": {}}
    write(package / "d" / "component.json", {"variants": variants})
    (package / "d" / "from_outside_1").mkdir()
    with pytest.raises(ConfinementError):
        modelpackage.open(package)
    rules = modelpackage.Rules(allow_external_paths=True)
    modelpackage.edit(package, rules).save_as(tmp_path / "copy")
    found = modelpackage.open(tmp_path / "copy").components["d"].variants
    assert found["x"].directory == tmp_path / "copy" / "d" / "from_outside_2"
    assert (found["x"].directory / "model.onnx").read_text() == "far"
    assert found["from_outside_1"].directory == tmp_path / "copy" / "d" / "from_outside_1"


@pytest.mark.parametrize("kind", ["full", "hidden", "file", "inside"])
def test_a_destination_that_is_not_empty_is_refused(
    package: Path, tmp_path: Path, kind: str
) -> None:
    target = tmp_path / "target"
    if kind == "file":
        target.write_text("")
    elif kind == "inside":
        target = package / "cpu" / "inner"
    else:
        target.mkdir()
        (target / (".x" if kind == "hidden" else "x")).write_text("")
    before = files(package)
    with pytest.raises(StateError):
        modelpackage.edit(package).save_as(target)
    assert files(package) == before


def test_an_empty_path_is_no_destination(package: Path) -> None:
    with pytest.raises(FileAccessError):
        modelpackage.edit(package).save_as("")


def test_an_empty_directory_and_a_link_to_one_are_destinations(
    package: Path, tmp_path: Path
) -> None:
    (tmp_path / "empty").mkdir()
    (tmp_path / "link").symlink_to("empty")
    saved = save(package, tmp_path / "link")
    assert saved.root == tmp_path / "empty"
    assert (tmp_path / "link").is_symlink()


def test_a_missing_or_wrong_asset_is_not_saved_and_leaves_nothing(
    package: Path, tmp_path: Path
) -> None:
    place = package / "shared_assets" / ABSENT.replace(":", "-")
    place.mkdir(parents=True)
    with pytest.raises(AssetMismatchError):
        save(package, tmp_path / "copy")
    place.rmdir()
    manifest = {"schema_version": "1.0", "components": {}, "shared_assets": {ABSENT: "none"}}
    write(package / "manifest.json", manifest)
    with pytest.raises(MissingError):
        save(package, tmp_path / "copy")
    assert [item.name for item in tmp_path.iterdir()] == ["p"]


def test_links_in_a_variant_are_kept_or_followed_but_never_out(
    package: Path, tmp_path: Path
) -> None:
    variant = package / "d" / "v"
    (variant / "same").symlink_to("deep/data")
    (variant / "other").symlink_to("../../cpu/model.onnx")
    saved = save(package, tmp_path / "copy").root / "d" / "v"
    assert os.readlink(saved / "same") == "deep/data"  # noqa: PTH115  (its text)
    assert not (saved / "other").is_symlink()
    assert (saved / "other").read_text() == "cpu/model.onnx"
    for target in ("/etc/hostname", "../../cpu", "../.."):
        (variant / "out").symlink_to(target)
        with pytest.raises(ConfinementError):
            save(package, tmp_path / "another")
        (variant / "out").unlink()
    os.mkfifo(variant / "fifo")
    with pytest.raises(SchemaError):
        save(package, tmp_path / "another")
    assert not (tmp_path / "another").exists()


def test_a_dense_package_is_saved_with_all_files(package: Path, tmp_path: Path) -> None:
    with modelpackage.edit(package) as editor:
        editor.set_executor_info("d", "v", "ort", {"a": 1})
    saved = save(package, tmp_path / "copy", WriteMode.DENSE)
    directory = saved.components["d"].variants["v"].directory
    assert directory == tmp_path / "copy" / "d" / "v"
    assert (directory / "deep" / "data").is_file()
    assert not (tmp_path / "copy" / "d" / "component.json").exists()


def test_what_a_dead_save_left_over_goes_with_the_next(package: Path, tmp_path: Path) -> None:
    dead = tmp_path / "copy.commit.0123456789abcdef"
    (dead / "x").mkdir(parents=True)
    save(package, tmp_path / "copy")
    assert not dead.exists()


def test_what_a_dead_save_left_over_goes_with_a_prune_too(package: Path, tmp_path: Path) -> None:
    dead = tmp_path / "p.commit.0123456789abcdef"
    others = [tmp_path / "p.commit.0123", tmp_path / "q.commit.0123456789abcdef"]
    for made in (dead, *others):
        (made / "x").mkdir(parents=True)
    modelpackage.prune(package)
    assert not dead.exists()
    assert all((other / "x").is_dir() for other in others)


def test_a_save_that_lives_is_not_taken_for_left_over(package: Path, tmp_path: Path) -> None:
    living = tmp_path / "p.commit.0123456789abcdef"
    living.mkdir()
    with writing.locked(str(living)):
        modelpackage.prune(package)
    assert living.is_dir()


def pruned(package: Path) -> set[str]:
    before = {str(p.relative_to(package)) for p in package.rglob("*")}
    modelpackage.prune(package)
    return before - {str(p.relative_to(package)) for p in package.rglob("*")}


def test_directories_of_what_was_removed_go_only_once_the_removal_is_saved(package: Path) -> None:
    editor = modelpackage.edit(package)
    editor.remove_variant("main", "cpu")
    editor.remove_component("d")
    editor.prune()
    assert (package / "cpu").is_dir()
    assert (package / "d").is_dir()
    editor.commit()
    editor.prune()
    assert not (package / "cpu").exists()
    assert not (package / "d").exists()
    assert (package / "unused").is_dir()


def test_what_an_unsaved_change_needs_is_not_pruned(package: Path) -> None:
    editor = modelpackage.edit(package)
    editor.remove_variant("main", "cpu")
    editor.commit()
    editor.set_variant("main", "again", {"variant_directory": "cpu"})
    editor.prune()
    assert (package / "cpu" / "model.onnx").is_file()
    editor.commit()
    editor.remove_variant("main", "again")
    editor.commit()
    editor.prune()
    assert not (package / "cpu").exists()


@pytest.mark.parametrize(
    "directory", [".", "d", "d/v", "shared_assets", f"shared_assets/{ABSENT.replace(':', '-')}"]
)
def test_pruning_never_deletes_the_package_or_what_lives(package: Path, directory: str) -> None:
    (package / "shared_assets" / ABSENT.replace(":", "-") / "x").mkdir(parents=True)
    before = files(package)
    editor = modelpackage.edit(package)
    editor.set_variant("main", "doomed", {"variant_directory": directory})
    editor.commit()
    editor.remove_variant("main", "doomed")
    editor.commit()
    editor.prune()
    assert files(package) == before
    assert (package / "shared_assets" / ABSENT.replace(":", "-") / "x").is_dir()


def test_a_directory_in_a_live_one_lives_too(package: Path) -> None:
    with modelpackage.edit(package) as editor:
        editor.set_variant("main", "inner", {"variant_directory": "d/v/deep"})
    with modelpackage.edit(package) as editor:
        editor.remove_variant("main", "inner")
        editor.commit()
        editor.prune()
    assert (package / "d" / "v" / "deep" / "data").is_file()


def test_what_a_link_leads_to_is_not_pruned(package: Path, tmp_path: Path) -> None:
    (package / "linked").symlink_to("unused")
    (package / "above").symlink_to(".")
    with modelpackage.edit(package) as editor:
        editor.set_variant("main", "one", {"variant_directory": "linked"})
        editor.set_variant("main", "two", {"variant_directory": "above/unused"})
    with modelpackage.edit(package) as editor:
        editor.remove_variant("main", "one")
        editor.remove_variant("main", "two")
        editor.commit()
        # put there after all checks of the edit
        (package / "cpu").rename(package / "kept")
        (package / "cpu").symlink_to(tmp_path)
        editor.remove_variant("main", "cpu")
        editor.commit()
        editor.prune()
    assert (package / "unused" / "x").is_file()
    assert (package / "kept" / "model.onnx").is_file()
    assert tmp_path.is_dir()


def test_leftovers_of_the_native_library_go_after_a_minute(package: Path) -> None:
    place = package / "shared_assets"
    old = place / f"{ABSENT.replace(':', '-')}.tmp.0123456789abcdef"
    young = place / "x.tmp.y"
    for made in (old / "deep", young):
        made.mkdir(parents=True)
    (place / "file.tmp.z").write_text("")
    (place / "link.tmp.z").symlink_to(old)
    for path in (old, place / "file.tmp.z"):
        os.utime(path, (time.time() - 61,) * 2)
    gone = pruned(package)
    assert gone == {f"shared_assets/{old.name}", f"shared_assets/{old.name}/deep"}


def test_only_names_of_dead_commits_are_taken_for_leftovers(package: Path) -> None:
    for name in (
        *("manifest.json.commit.0123456789abcdef", "d/component.json.commit.0123456789abcdef"),
        *(
            "mine.json.commit.0123456789abcdef",
            "manifest.json.commit.x",
            "cpu/manifest.json.commit.",
        ),
    ):
        (package / name).write_text("x")
    assert pruned(package) == {
        "manifest.json.commit.0123456789abcdef",
        "d/component.json.commit.0123456789abcdef",
    }
