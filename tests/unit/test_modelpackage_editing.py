"""Editing a package: a `with` saves all or nothing, and a refused change changes nothing."""

from __future__ import annotations

import json
import os
import resource
import threading
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from sealcar import modelpackage
from sealcar.modelpackage import (
    AssetMismatchError,
    ConfinementError,
    FileAccessError,
    MissingError,
    PackageError,
    SchemaError,
    StateError,
    WriteMode,
    writing,
)

if TYPE_CHECKING:
    from collections.abc import Callable

CPU = {"ep": "CPUExecutionProvider"}


@pytest.fixture
def package(tmp_path: Path) -> Path:
    root = tmp_path / "p"
    for name in ("cpu", "d/v", "d/w"):
        (root / name).mkdir(parents=True)
        (root / name / "model.onnx").write_text(name)
    (root / "d" / "v" / "info.json").write_text('{"a": 1}')
    write(root / "d" / "component.json", {"variants": {"v": {}, "w": {}}})
    write(
        root / "manifest.json",
        {"schema_version": "1.0", "components": {"main": {"variants": {"cpu": CPU}}, "d": "d"}},
    )
    return root


def write(file: Path, value: object) -> None:
    file.write_bytes(modelpackage.document(value))  # type: ignore[arg-type]


def snapshot(root: Path) -> dict[str, bytes]:
    return {str(p.relative_to(root)): p.read_bytes() for p in root.rglob("*") if p.is_file()}


def test_leaving_the_with_saves_all_changes(package: Path) -> None:
    with modelpackage.edit(package) as editor:
        editor.set_metadata(name="n", version="2")
        editor.set_variant("main", "gpu", {"device": "gpu"})
        editor.set_executor_info("main", "cpu", "ort", {"model_file": "model.onnx"})
    with modelpackage.open(package) as found:
        assert (found.name, found.version) == ("n", "2")
        assert list(found.components["main"].variants) == ["cpu", "gpu"]
        info = found.components["main"].variants["cpu"].executor_info["ort"]
        assert info.value == {"model_file": "model.onnx"}


def test_an_exception_that_leaves_the_with_discards_all_changes(package: Path) -> None:
    before = snapshot(package)
    editor = modelpackage.edit(package)
    with pytest.raises(MissingError), editor:
        # what was set before is refused along with what fails here
        editor.set_metadata(name="n") or editor.set_variant("nowhere", "v", {})  # type: ignore[func-returns-value]
    assert snapshot(package) == before
    with pytest.raises(StateError):
        editor.set_metadata(name="n")


def test_a_new_package_is_saved_when_the_with_is_left(tmp_path: Path) -> None:
    with modelpackage.create(tmp_path / "new") as editor:
        editor.set_component("main", {"variants": {"cpu": CPU}})
        assert not (tmp_path / "new").exists()
    found = modelpackage.open(tmp_path / "new")
    assert found.components["main"].variants["cpu"].ep == "CPUExecutionProvider"


@pytest.mark.parametrize(
    "change",
    [
        lambda e: e.set_metadata(name="\ud800"),
        lambda e: e.set_metadata(name="ok", version=7),
        lambda e: e.set_layout("movable"),
        lambda e: e.set_additional_metadata({"a": float("nan")}),
        lambda e: e.set_additional_metadata({"a": {1, 2}}),
        lambda e: e.set_additional_metadata(1, component="nope"),
        lambda e: e.set_additional_metadata(1, variant="cpu"),
        lambda e: e.set_additional_metadata(1, component="main", variant="nope"),
        lambda e: e.set_component("c", {}),
        lambda e: e.set_component("c", {"variants": {"v": {"ep": None}}}),
        lambda e: e.set_component("c", {"variants": {}, "unknown": 1}),
        lambda e: e.set_component_file("c", "../out"),
        lambda e: e.set_component_file("c", "cpu/model.onnx"),
        lambda e: e.set_variant("nope", "v", {}),
        lambda e: e.set_variant("main", "v", {"variant_directory": "missing"}),
        lambda e: e.set_variant("main", "cpu", {"device": 1}),
        lambda e: e.set_executor_info("main", "cpu", "ort", "info.json"),
        lambda e: e.set_executor_info("main", "nope", "ort", {}),
        lambda e: e.set_executor_info("main", "cpu", "ort", [1]),
        lambda e: e.set_executor_info_file("main", "cpu", "ort", "model.onnx"),
        lambda e: e.remove_executor_info("main", "nope", "ort"),
        lambda e: e.add_shared_asset("/nowhere"),
    ],
)
def test_a_refused_change_changes_nothing(
    package: Path, change: Callable[[modelpackage.Editor], object]
) -> None:
    editor = modelpackage.edit(package)
    before = modelpackage.info(editor.package)
    with pytest.raises(PackageError):
        change(editor)
    assert modelpackage.info(editor.package) == before
    editor.commit()
    assert modelpackage.info(modelpackage.open(package)) == before


def test_metadata_of_a_variant_survives_a_commit(package: Path) -> None:
    with modelpackage.edit(package) as editor:
        editor.set_additional_metadata({"kept": True}, component="d", variant="v")
        editor.set_additional_metadata({"gone": True}, component="d", variant="w")
        editor.remove_additional_metadata(component="d", variant="w")
    variants = modelpackage.open(package).components["d"].variants
    assert variants["v"].body == {"additional_metadata": {"kept": True}}
    assert variants["w"].body == {}


def test_unknown_fields_of_a_newer_minor_survive_a_commit(package: Path) -> None:
    manifest = json.loads((package / "manifest.json").read_text())
    manifest |= {"schema_version": "1.9", "future": [1.50, {"k": None}]}
    manifest["components"]["main"]["future"] = True
    write(package / "manifest.json", manifest)
    with modelpackage.edit(package) as editor:
        editor.set_metadata(description="x")
    written = json.loads((package / "manifest.json").read_text())
    assert written == {**manifest, "description": "x"}
    assert list(written) == [*manifest, "description"]


def test_a_commit_that_would_not_open_is_refused_and_writes_nothing(package: Path) -> None:
    before = snapshot(package)
    editor = modelpackage.edit(package)
    editor.set_metadata(name="n")
    editor.set_executor_info_file("main", "cpu", "ort", "later.json")
    with pytest.raises(MissingError):
        editor.commit()
    assert snapshot(package) == before
    # once the file is there, all is well
    (package / "cpu" / "later.json").write_text("{}")
    editor.commit()
    assert modelpackage.open(package).name == "n"


def test_a_package_that_somebody_else_changed_is_not_overwritten(package: Path) -> None:
    first, second = modelpackage.edit(package), modelpackage.edit(package)
    first.set_metadata(name="first")
    second.set_metadata(name="second")
    first.commit()
    with pytest.raises(StateError, match="somebody else"):
        second.commit()
    assert modelpackage.open(package).name == "first"


def test_a_package_is_changed_by_one_at_a_time(package: Path) -> None:
    editor = modelpackage.edit(package)
    with writing.locked(str(package)), pytest.raises(StateError):
        editor.commit()
    editor.commit()


def test_an_asset_is_copied_in_by_the_commit(package: Path, tmp_path: Path) -> None:
    source = tmp_path / "asset"
    (source / "deep" / "empty").mkdir(parents=True)
    (source / "deep" / "run.sh").write_text("x")
    (source / "deep" / "run.sh").chmod(0o755)
    with modelpackage.edit(package) as editor:
        uri = editor.add_shared_asset(source)
        assert editor.package.resolve_asset(uri) == str(source)
    found = modelpackage.open(package)
    place = Path(found.resolve_asset(uri))
    assert place == package / "shared_assets" / uri.replace(":", "-")
    assert (place / "deep" / "run.sh").stat().st_mode & 0o777 == 0o755
    assert (place / "deep" / "empty").is_dir()
    assert modelpackage.hash_directory(place) == uri
    with found.open_file(f"{uri}/deep/run.sh") as stream:
        assert stream.read() == b"x"


def test_an_asset_that_changed_since_it_was_hashed_is_refused_and_nothing_is_left(
    package: Path, tmp_path: Path
) -> None:
    (tmp_path / "asset").mkdir()
    (tmp_path / "asset" / "f").write_text("before")
    before = snapshot(package)
    editor = modelpackage.edit(package)
    editor.set_metadata(name="n")
    editor.add_shared_asset(tmp_path / "asset")
    (tmp_path / "asset" / "f").write_text("after")
    with pytest.raises(AssetMismatchError):
        editor.commit()
    assert snapshot(package) == before
    (tmp_path / "asset" / "f").write_text("before")
    editor.commit()
    assert modelpackage.open(package).name == "n"


def test_removing_an_asset_waits_for_the_commit(package: Path, tmp_path: Path) -> None:
    (tmp_path / "asset").mkdir()
    with modelpackage.edit(package) as editor:
        uri = editor.add_shared_asset(tmp_path / "asset")
    editor = modelpackage.edit(package)
    editor.remove_shared_asset(uri)
    assert uri not in editor.package.shared_assets
    editor.discard()
    assert uri in modelpackage.open(package).shared_assets
    with modelpackage.edit(package) as editor:
        editor.remove_shared_asset(uri)
    assert modelpackage.open(package).shared_assets == {}
    assert list((package / "shared_assets").iterdir()) == []


def test_a_removal_that_failed_to_be_saved_is_not_made_up_for_later(
    package: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "asset").mkdir()
    with modelpackage.edit(package) as editor:
        uri = editor.add_shared_asset(tmp_path / "asset")
    editor = modelpackage.edit(package)
    editor.remove_shared_asset(uri)
    with monkeypatch.context() as patched:

        def full(*_: object, **__: object) -> None:
            raise OSError(28, "No space left on device")

        patched.setattr("sealcar.modelpackage.committing.writing.replace", full)
        with pytest.raises(FileAccessError, match="No space left"):
            editor.commit()
    editor.discard()
    with modelpackage.edit(package) as editor:
        editor.remove_shared_asset(uri)
        editor.add_shared_asset(tmp_path / "asset")
    modelpackage.prune(package)
    assert uri in modelpackage.open(package).shared_assets


def test_removing_an_asset_and_adding_it_again_keeps_it(package: Path, tmp_path: Path) -> None:
    (tmp_path / "asset").mkdir()
    with modelpackage.edit(package) as editor:
        uri = editor.add_shared_asset(tmp_path / "asset")
    with modelpackage.edit(package) as editor:
        editor.remove_shared_asset(uri)
        assert editor.add_shared_asset(tmp_path / "asset", expected=uri) == uri
    assert uri in modelpackage.open(package).shared_assets


def test_dense_rewrites_paths_so_that_every_variant_keeps_its_directory(package: Path) -> None:
    with modelpackage.edit(package) as editor:
        editor.set_variant("d", "w", {"variant_directory": "v"})
    before = [v.directory for v in modelpackage.open(package).components["d"].variants.values()]
    editor = modelpackage.edit(package)
    editor.commit(WriteMode.DENSE)
    found = modelpackage.open(package).components["d"]
    assert found.file is None
    assert [variant.directory for variant in found.variants.values()] == before
    assert found.variants["v"].body == {"variant_directory": "d/v"}


def test_dense_refuses_a_variant_that_would_get_a_directory(package: Path) -> None:
    with modelpackage.edit(package) as editor:
        editor.set_variant("d", "cpu", {})
    before = snapshot(package)
    editor = modelpackage.edit(package)
    assert editor.package.components["d"].variants["cpu"].directory is None
    with pytest.raises(StateError, match="would get"):
        editor.commit(WriteMode.DENSE)
    assert snapshot(package) == before


def test_dense_refuses_an_executor_info_in_a_file(package: Path) -> None:
    with modelpackage.edit(package) as editor:
        editor.set_executor_info_file("d", "v", "own", "info.json")
    with pytest.raises(StateError):
        modelpackage.edit(package).commit(WriteMode.DENSE)


def test_a_package_becomes_portable_only_if_nothing_of_it_is_outside(
    package: Path, tmp_path: Path
) -> None:
    (tmp_path / "outside").mkdir()
    write(tmp_path / "outside" / "component.json", {"variants": {}})
    with modelpackage.edit(package) as editor:
        editor.set_layout("installed")
        editor.set_component_file("far", "../outside")
    before = snapshot(package)
    editor = modelpackage.edit(package)
    editor.set_layout("portable")
    with pytest.raises(ConfinementError):
        editor.commit()
    assert snapshot(package) == before


def test_no_package_can_be_edited_that_does_not_open(tmp_path: Path) -> None:
    write(tmp_path / "manifest.json", {})
    with pytest.raises(SchemaError):
        modelpackage.edit(tmp_path)


def test_a_package_that_was_never_saved_finds_nothing(tmp_path: Path) -> None:
    editor = modelpackage.new()
    with pytest.raises(StateError):
        editor.commit()
    with pytest.raises(StateError):
        editor.package.resolve("x")
    with pytest.raises(StateError):
        editor.set_component_file("c", str(tmp_path))


def test_the_last_executor_info_that_is_removed_takes_the_field_with_it(package: Path) -> None:
    with modelpackage.edit(package) as editor:
        editor.set_executor_info("main", "cpu", "ort", {"a": 1})
        editor.set_executor_info("main", "cpu", "own", {})
        editor.remove_executor_info("main", "cpu", "nobody")
        editor.remove_executor_info("main", "cpu", "own")
        variant = editor.package.components["main"].variants["cpu"]
        assert list(variant.executor_info) == ["ort"]
        editor.remove_executor_info("main", "cpu", "ort")
    assert modelpackage.open(package).components["main"].variants["cpu"].body == CPU


def test_an_installed_package_may_refer_to_an_asset_where_it_is(
    package: Path, tmp_path: Path
) -> None:
    for name in ("one", "two"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "f").write_text(name)
    with pytest.raises(StateError):
        modelpackage.edit(package).add_shared_asset(tmp_path / "one", copy=False)
    with modelpackage.edit(package) as editor:
        copied = editor.add_shared_asset(tmp_path / "two")
    with modelpackage.edit(package) as editor:
        editor.set_layout("installed")
        referred = editor.add_shared_asset(tmp_path / "one", copy=False)
        assert list(editor.package.shared_assets) == [referred, copied]
        # the directory that is declared goes on to be the one that is used
        assert editor.add_shared_asset(tmp_path / "one") == referred
    found = modelpackage.open(package)
    assert found.resolve_asset(referred) == str(tmp_path / "one")
    assert list(found.shared_assets) == [referred, copied]
    with modelpackage.edit(package) as editor:
        editor.remove_shared_asset(referred)
    assert list(modelpackage.open(package).shared_assets) == [copied]
    assert (tmp_path / "one" / "f").is_file()


def test_links_are_neither_copied_in_nor_removed_as_assets(package: Path, tmp_path: Path) -> None:
    (tmp_path / "asset").mkdir()
    (tmp_path / "link").symlink_to("asset")
    editor = modelpackage.edit(package)
    with pytest.raises(SchemaError):
        editor.add_shared_asset(tmp_path / "link")
    uri = "sha256:" + "ab" * 32
    (package / "shared_assets").mkdir()
    (package / "shared_assets" / uri.replace(":", "-")).symlink_to("nowhere")
    with pytest.raises(ConfinementError):
        editor.remove_shared_asset(uri)


def test_a_commit_for_which_there_is_no_room_changes_nothing(package: Path) -> None:
    before = snapshot(package)
    editor = modelpackage.edit(package)
    editor.set_metadata(description="x" * 5000)
    editor.set_variant("d", "v", CPU)
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (1000, limits[1]))
    try:
        with pytest.raises(FileAccessError, match="too large"):
            editor.commit()
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    assert snapshot(package) == before
    editor.commit()
    assert modelpackage.open(package).components["d"].variants["v"].ep == CPU["ep"]


def test_assets_are_copied_where_hard_links_cannot_be(
    package: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "asset").mkdir()
    (tmp_path / "asset" / "f").write_text("f")

    def refuse(*_: object, **__: object) -> None:
        raise PermissionError(1, "Operation not permitted")

    monkeypatch.setattr(os, "link", refuse)
    with modelpackage.edit(package) as editor:
        uri = editor.add_shared_asset(tmp_path / "asset")
    assert modelpackage.hash_directory(modelpackage.open(package).resolve_asset(uri)) == uri
    assert [path.name for path in (package / "shared_assets").iterdir()] == [uri.replace(":", "-")]


def test_a_new_package_may_be_saved_dense(tmp_path: Path) -> None:
    editor = modelpackage.new()
    editor.set_component("c", {"variants": {"v": {"executor_info": {"ort": {}}}}})
    editor.save_as(tmp_path / "p", WriteMode.DENSE)
    assert "c" in modelpackage.open(tmp_path / "p").components


def test_a_component_file_cannot_be_where_another_has_its_directory(package: Path) -> None:
    before = snapshot(package)
    editor = modelpackage.edit(package)
    editor.set_component_file("a", "fresh")
    editor.set_component_file("b", "fresh/c.json")
    with pytest.raises(FileAccessError, match="directory"):
        editor.commit()
    editor.remove_component("b")
    (package / "fresh").mkdir()
    with pytest.raises(FileAccessError, match="directory"):
        editor.commit()
    assert snapshot(package) == before


def test_a_package_whose_commit_cannot_be_finished_can_be_edited_all_the_same(
    package: Path,
) -> None:
    staged = "d/component.json.commit.0123456789abcdef"
    (package / "d" / "component.json").rename(package / staged)
    (package / "d" / "component.json").mkdir()
    manifest = json.loads((package / "manifest.json").read_text())
    manifest["components"]["d"] = staged
    write(package / "manifest.json", manifest)
    with modelpackage.edit(package) as editor:
        editor.set_variant("d", "v", CPU)
        editor.set_metadata(name="n")
    assert modelpackage.open(package).components["d"].variants["v"].ep == CPU["ep"]
    with pytest.raises(FileAccessError):
        modelpackage.prune(package)
    (package / "d" / "component.json").rmdir()
    modelpackage.prune(package)
    found = modelpackage.open(package)
    assert (found.name, found.components["d"].variants["v"].ep) == ("n", CPU["ep"])
    assert found.components["d"].file == package / "d" / "component.json"


def test_one_changed_component_file_is_replaced_alone(package: Path) -> None:
    manifest = (package / "manifest.json").stat().st_ino
    with modelpackage.edit(package) as editor:
        editor.set_variant("d", "v", CPU)
    assert (package / "manifest.json").stat().st_ino == manifest
    assert modelpackage.open(package).components["d"].variants["v"].ep == CPU["ep"]


def test_an_edit_of_ten_thousand_variants_is_no_matter_of_minutes(package: Path) -> None:
    body: dict[str, Any] = {"variants": {f"v{number}": {} for number in range(9000)}}
    with modelpackage.edit(package) as editor:
        editor.set_component("many", body)
        for number in range(500):
            editor.set_variant("many", f"v{number}", CPU)
    assert len(modelpackage.open(package).components["many"].variants) == 9000


def test_who_reads_while_somebody_commits_sees_the_old_package_or_the_new_one(
    package: Path,
) -> None:
    over = threading.Event()

    def commit(text: str) -> None:
        with modelpackage.edit(package) as editor:
            editor.set_metadata(version=text)
            editor.set_variant("d", "v", {"ep": text})

    def write_on() -> None:
        for number in range(2, 100_000):
            if over.is_set():
                return
            commit(str(number))

    commit("1")
    writer = threading.Thread(target=write_on)
    writer.start()
    seen: set[str | None] = set()
    try:
        while len(seen) < 20:
            found = modelpackage.open(package)
            assert found.components["d"].variants["v"].ep == found.version
            seen.add(found.version)
    finally:
        over.set()
        writer.join()
