"""Packages made to do harm: none makes the reader look elsewhere, wait, or work without end."""

from __future__ import annotations

import json
import os
import threading
import time
from typing import TYPE_CHECKING, Any

import pytest
from support.deep_folders import deep

from sealcar import modelpackage
from sealcar.modelpackage import (
    ConfinementError,
    FileAccessError,
    LimitError,
    Limits,
    PackageError,
    Rules,
    SchemaError,
)

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

OUTSIDE = '{"variants": {"secret": {}}}'


def write(root: Path, components: object) -> Path:
    root.mkdir(exist_ok=True)
    manifest = {"schema_version": "1.0", "components": components}
    (root / "manifest.json").write_text(json.dumps(manifest, ensure_ascii=False))
    return root


def variant(**body: Any) -> dict[str, Any]:  # noqa: ANN401  (any JSON)
    return {"c": {"variants": {"v": body}}}


@pytest.fixture
def root(tmp_path: Path) -> Path:
    (tmp_path / "outside" / "v").mkdir(parents=True)
    (tmp_path / "outside" / "component.json").write_text(OUTSIDE)
    (tmp_path / "outside" / "v" / "info.json").write_text("{}")
    (tmp_path / "p" / "v").mkdir(parents=True)
    return tmp_path / "p"


@pytest.mark.parametrize(
    ("link", "target", "path"),
    [
        ("final", "../outside", "final"),
        ("final", "../outside/component.json", "final"),
        ("parent", "..", "parent/outside"),
        ("first", "second", "first"),
        ("absolute", "/etc", "absolute"),
    ],
)
def test_a_link_that_leads_out_is_not_followed(
    root: Path, link: str, target: str, path: str
) -> None:
    (root / link).symlink_to(target)
    (root / "second").symlink_to("../outside")
    for components in ({"c": path}, variant(variant_directory=path)):
        with pytest.raises(ConfinementError):
            modelpackage.open(write(root, components))


@pytest.mark.parametrize("target", ["loop", "nowhere", "loop/x", "v/../loop"])
def test_loops_and_dangling_links_are_missing_files(root: Path, target: str) -> None:
    (root / "loop").symlink_to(target)
    for components in ({"c": "loop"}, variant(variant_directory="loop")):
        with pytest.raises(modelpackage.MissingError):
            modelpackage.open(write(root, components))


def test_a_hard_link_is_a_file_like_any_other(root: Path, tmp_path: Path) -> None:
    (root / "c.json").hardlink_to(tmp_path / "outside" / "component.json")
    assert "secret" in modelpackage.open(write(root, {"c": "c.json"})).components["c"].variants


@pytest.mark.parametrize("make", [os.mkfifo, os.mkdir, lambda path: path.symlink_to("/dev/zero")])
@pytest.mark.parametrize("place", ["manifest.json", "c.json", "v/info.json"])
def test_what_is_no_regular_file_is_refused_without_reading_it(
    root: Path, place: str, make: Callable[[Path], None]
) -> None:
    write(root, {"c": "c.json", "d": variant(executor_info={"own": "info.json"})["c"]})
    (root / "c.json").write_text('{"variants": {}}')
    (root / "v" / "info.json").write_text("{}")
    modelpackage.open(root)
    (root / place).unlink()
    make(root / place)
    with pytest.raises(PackageError):
        modelpackage.open(root)


def test_composed_and_decomposed_names_are_two(root: Path) -> None:
    composed, decomposed = "\u00e9", "e\u0301"
    (root / composed).mkdir()
    package = modelpackage.open(write(root, {"c": {"variants": {composed: {}, decomposed: {}}}}))
    variants = package.components["c"].variants
    assert variants[composed].directory == root / composed
    assert variants[decomposed].directory is None


@pytest.mark.parametrize("path", ["x" * 256, "x/" * 3000, "./" * 3000 + "v", "\0", "v\0x"])
def test_paths_that_cannot_be_are_refused(root: Path, path: str) -> None:
    for components in (
        {"c": path},
        variant(variant_directory=path),
        variant(executor_info={"own": path}),
    ):
        with pytest.raises(PackageError):
            modelpackage.open(write(root, components))


@pytest.mark.parametrize(
    ("place", "what"),
    [
        *(("c.json", "file"), ("v/info.json", "file"), ("v/info.json", "parent")),
        # the file itself may be a link, says the format
        ("deep/component.json", "parent"),
    ],
)
def test_a_link_put_in_after_the_check_is_not_followed(
    root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, place: str, what: str
) -> None:
    (root / "deep").mkdir()
    components = {"c": place.removesuffix("/component.json")} if place[0] != "v" else {}
    write(root, components | {"d": variant(executor_info={"own": "info.json"})["c"]})
    for name in ("c.json", "deep/component.json"):
        (root / name).write_text('{"variants": {}}')
    (root / "v" / "info.json").write_text("{}")
    swapped = root / place if what == "file" else (root / place).parent
    checked = root / "deep" if place[0] == "d" else root / place
    real = os.path.realpath

    def resolve(path: str, **options: bool) -> str:
        """Resolve a path as ever; right after the answer, the attacker is quicker."""
        found = real(path, **options)
        if found == str(checked):
            swapped.rename(tmp_path / "away")
            target = "outside/component.json" if what == "file" else "outside"
            swapped.symlink_to(tmp_path / target)
        return found

    with monkeypatch.context() as patched:
        patched.setattr(os.path, "realpath", resolve)
        with pytest.raises(FileAccessError):
            modelpackage.open(root)
    assert swapped.is_symlink()


def test_opening_a_file_of_a_package_does_not_follow_a_link_put_in_meanwhile(
    root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (root / "v" / "model.onnx").write_text("model")
    package = modelpackage.open(write(root, variant()))
    with package.open_file("model.onnx", base=root / "v") as stream:
        assert stream.read() == b"model"
    real = package.resolve

    def resolve(reference: str, **options: Any) -> str:  # noqa: ANN401  (passed on)
        found = real(reference, **options)
        (root / "v" / "model.onnx").unlink()
        (root / "v" / "model.onnx").symlink_to(tmp_path / "outside" / "component.json")
        return found

    monkeypatch.setattr(
        type(package), "resolve", lambda _, *args, **options: resolve(*args, **options)
    )
    with pytest.raises(FileAccessError):
        package.open_file("model.onnx", base=root / "v")


@pytest.mark.parametrize(
    "text",
    [
        "[" * 100_000,
        '{"a":' * 100_000,
        "[" * 100_000 + "]" * 100_000,
        '{"schema_version":"1.0","components":' + "9" * 1_000_000 + "}",
        '{"schema_version":"1.0","components":{},"x":1e' + "9" * 1_000_000 + "}",
        '{"x":1e400,"' + '\\"' * 1_000_000,
        '{"x":"\\ud800","' + '\\"' * 1_000_000,
        "{" + ",".join(f'"{n}":0' for n in range(100_000)) + ',"99999":0}',
        '"' + "\\u0041" * 1_000_000,
        " " * (17 << 20),
    ],
    ids=lambda text: text[:12],
)
def test_a_bomb_of_a_document_is_refused_in_no_time(root: Path, text: str) -> None:
    (root / "manifest.json").write_text(text)
    started = time.process_time()
    with pytest.raises(SchemaError):
        modelpackage.open(root, Rules(unique_keys=True))
    assert time.process_time() - started < 10


def test_a_syntax_error_is_told_with_line_and_column(root: Path) -> None:
    for text, place in (
        # from Python 3.13 on the parser points at the comma itself
        ('{\n  "a": 1,\n}', "line 3 column 1|line 2 column 9"),
        ('{\n "a": "\\ud800"}', "line 2 column 7"),
        ('{"b": 1,\n\n "a": 1e400}', "line 3 column 7"),
        ('{"é": tru}', "line 1 column 7"),
    ):
        (root / "manifest.json").write_text(text)
        with pytest.raises(SchemaError, match=place):
            modelpackage.open(root)
    (root / "manifest.json").write_bytes(b'{\n "a": "\xff"}')
    with pytest.raises(SchemaError, match="line 2 column 8"):
        modelpackage.open(root)


def test_100_000_variants_are_over_the_limits_and_open_under_others(root: Path) -> None:
    components: Any = {
        f"c{n}": {"variants": {f"v{m}": {} for m in range(1000)}} for n in range(100)
    }
    write(root, components)
    with pytest.raises(LimitError):
        modelpackage.open(root)
    started = time.process_time()
    package = modelpackage.open(root, Rules(limits=Limits(variants=100_000)))
    assert sum(len(item.variants) for item in package.components.values()) == 100_000
    assert time.process_time() - started < 60


def test_too_many_components_are_over_the_limits(root: Path) -> None:
    write(root, {f"c{n}": {"variants": {}} for n in range(1001)})
    with pytest.raises(LimitError) as caught:
        modelpackage.open(root)
    assert caught.value.where == "components"


def test_a_hostile_place_for_a_new_component_is_refused(root: Path) -> None:
    (root / "out").symlink_to("../outside")
    editor = modelpackage.edit(write(root, {}))
    for path in ("out", "out/new.json", "out/component.json", "../x", "/etc/x"):
        with pytest.raises(ConfinementError):
            editor.set_component_file("c", path)


def test_a_link_put_in_while_editing_is_not_written_through(root: Path, tmp_path: Path) -> None:
    (root / "deep").mkdir()
    editor = modelpackage.edit(write(root, {}))
    editor.set_component_file("c", "deep/c.json")
    (root / "deep").rmdir()
    (root / "deep").symlink_to("../outside")
    before = sorted(path.name for path in (tmp_path / "outside").iterdir())
    with pytest.raises(PackageError):
        editor.commit()
    assert sorted(path.name for path in (tmp_path / "outside").iterdir()) == before
    assert modelpackage.open(root).components == {}


def test_a_link_that_comes_and_goes_is_never_followed(root: Path, tmp_path: Path) -> None:
    (root / "d").mkdir()
    (root / "d" / "component.json").write_text('{"variants": {"fine": {}}}')
    write(root, {"c": "d"})
    over = threading.Event()

    def swap() -> None:
        while not over.is_set():
            (root / "d").rename(tmp_path / "away")
            (root / "d").symlink_to("../outside")
            (root / "d").unlink()
            (tmp_path / "away").rename(root / "d")
            # long enough to be met, on one core too
            time.sleep(0.001)

    swapping = threading.Thread(target=swap)
    swapping.start()
    seen: set[str] = set()
    refused = 0
    end = time.monotonic() + 20
    try:
        # until both states were met, and often enough
        while time.monotonic() < end and (refused < 200 or not seen):
            try:
                seen.update(modelpackage.open(root).components["c"].variants)
            except PackageError:
                refused += 1
    finally:
        over.set()
        swapping.join()
    assert seen == {"fine"}
    assert refused


NO_TEXT = "\udcff"  # a byte in a file's name that is no UTF-8


@pytest.mark.parametrize("name", [NO_TEXT, "\ud800"])
def test_a_name_that_no_manifest_can_hold_is_refused_and_nothing_is_written(
    root: Path, name: str
) -> None:
    package = write(root, {})
    before = (package / "manifest.json").read_bytes()
    with pytest.raises(SchemaError), modelpackage.edit(package) as editor:
        editor.set_component(name, {"variants": {}})
    with pytest.raises(PackageError), modelpackage.edit(package) as editor:
        editor.set_component_file("c", f"c{name}.json")
    assert (package / "manifest.json").read_bytes() == before


def test_a_place_whose_name_is_too_long_is_refused(root: Path) -> None:
    with pytest.raises(PackageError), modelpackage.edit(write(root, {})) as editor:
        editor.set_component_file("c", "x" * 300)


@pytest.mark.parametrize("text", ["\ud800", NO_TEXT, "x" * 300])
def test_a_reference_to_what_cannot_be_is_missing(root: Path, text: str) -> None:
    package = modelpackage.open(write(root, {}))
    with pytest.raises(PackageError):
        package.resolve(text, must_exist=True)
    assert package.resolve(text) == f"{package.root}/{text}"


@pytest.mark.parametrize("text", ["x\0y", "\ud800"])
def test_a_place_that_no_directory_can_have_is_refused(root: Path, text: str) -> None:
    place = f"{root}/{text}"
    with pytest.raises(FileAccessError):
        modelpackage.edit(write(root, {})).save_as(place)
    with pytest.raises(FileAccessError), modelpackage.create(place):
        pass
    with pytest.raises(PackageError):
        modelpackage.open(write(root, {})).resolve("x", base=place, must_exist=True)


def test_what_is_left_over_and_too_deep_to_be_deleted_is_told(root: Path) -> None:
    package = write(root, {})
    with deep(package / f"manifest.json.commit.{'0' * 16}"):
        with pytest.raises(LimitError):
            modelpackage.prune(package)
        with pytest.raises(LimitError):
            modelpackage.edit(package)
        assert modelpackage.open(package).components == {}
