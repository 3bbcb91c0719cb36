"""The golden packages: what the native library made of them is what we make of them."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime
import pytest

from sealcar import modelpackage

STORED = Path(__file__).parent.parent / "data" / "packages"
EXPECTED: dict[str, Any] = json.loads((STORED / "expected.json").read_text())
KINDS: dict[str, tuple[type[modelpackage.PackageError], ...]] = {
    "OSError": (modelpackage.FileAccessError,),
    "FileNotFoundError": (modelpackage.MissingError,),
    "ValueError": (
        modelpackage.SchemaError,
        modelpackage.VersionError,
        modelpackage.ConfinementError,
        modelpackage.InvalidPathError,
    ),
}

REFUSED = {
    "RuntimeError": modelpackage.StateError,
    "FileNotFoundError": modelpackage.MissingError,
}


@pytest.fixture(scope="module")
def base(tmp_path_factory: pytest.TempPathFactory) -> Path:
    copy = tmp_path_factory.mktemp("golden") / "packages"
    shutil.copytree(STORED, copy)
    for link, target in json.loads((STORED / "links.json").read_text()).items():
        (copy / link).symlink_to(target)
    return copy.resolve()


def placed(value: Any, base: Path, package: Path) -> str:  # noqa: ANN401  (any JSON)
    return json.dumps(value).replace("${PKG}", str(package)).replace("${BASE}", str(base))


@pytest.mark.parametrize("name", EXPECTED["valid"])
def test_a_valid_package_reads_exactly_as_the_native_library_reads_it(
    base: Path, name: str
) -> None:
    package = base / "valid" / name
    expected = EXPECTED["valid"][name]["open"]["value"]
    found = modelpackage.info(modelpackage.open(package))
    # as text: the order of members is part of the form
    assert json.dumps(found) == placed(expected, base, package)


@pytest.mark.parametrize("name", EXPECTED["invalid"])
def test_an_invalid_package_is_refused_with_the_same_kind_of_error(base: Path, name: str) -> None:
    kinds = KINDS[EXPECTED["invalid"][name]["exception"]]
    with pytest.raises(modelpackage.PackageError) as caught:
        modelpackage.open(base / "invalid" / name)
    assert isinstance(caught.value, kinds), caught.value
    assert caught.value.where or "is not a directory" in str(caught.value)


@pytest.mark.parametrize(
    ("option", "rules"),
    [
        ("opens_if_not_strict", modelpackage.Rules(unknown_fields=True)),
        ("opens_if_external_allowed", modelpackage.Rules(allow_external_paths=True)),
    ],
)
@pytest.mark.parametrize("name", EXPECTED["invalid"])
def test_a_relaxed_rule_lets_the_same_packages_through(
    base: Path, name: str, option: str, rules: modelpackage.Rules
) -> None:
    package = base / "invalid" / name
    if EXPECTED["invalid"][name][option]:
        modelpackage.open(package, rules)
    else:
        with pytest.raises(modelpackage.PackageError):
            modelpackage.open(package, rules)


@pytest.mark.parametrize("name", EXPECTED["ort_invalid"])
def test_what_only_the_runtime_refuses_still_opens(base: Path, name: str) -> None:
    modelpackage.open(base / "ort_invalid" / name)


@pytest.mark.parametrize("name", EXPECTED["hash"])
def test_a_tree_has_the_hash_that_the_native_library_gave_it(base: Path, name: str) -> None:
    assert modelpackage.hash_directory(base / "hash_trees" / name) == EXPECTED["hash"][name]


@pytest.mark.parametrize("case", EXPECTED["resolve_string_ref"], ids=lambda case: case["ref"])
def test_a_reference_leads_where_the_native_library_led(base: Path, case: dict[str, Any]) -> None:
    root = base / "valid" / case["package"]
    with modelpackage.open(root) as package:
        if case["ok"]:
            found = package.resolve(case["ref"], must_exist=case["must_exist"])
            assert json.dumps(found) == placed(case["value"], base, root)
        else:
            with pytest.raises(KINDS[case["exception"]]):
                package.resolve(case["ref"], must_exist=case["must_exist"])


def tree(root: Path) -> dict[str, bytes]:
    return {str(p.relative_to(root)): p.read_bytes() for p in root.rglob("*") if p.is_file()}


@pytest.fixture
def fresh(base: Path, tmp_path: Path) -> Path:
    """Give a copy of all packages that may be changed."""
    shutil.copytree(base, tmp_path / "packages", symlinks=True)
    return tmp_path / "packages"


@pytest.mark.parametrize("name", EXPECTED["valid"])
def test_a_commit_in_place_changes_exactly_what_the_native_one_changes(
    fresh: Path, name: str
) -> None:
    root = fresh / "valid" / name
    before = tree(root)
    modelpackage.edit(root).commit()
    changed = {path: data for path, data in tree(root).items() if before.get(path) != data}
    expected = EXPECTED["valid"][name]["in_place_commit_changes"]
    assert changed == {path: text.encode() for path, text in expected.items()}


@pytest.mark.parametrize("case", EXPECTED["commits"], ids=lambda case: case["source"])
def test_a_package_saved_elsewhere_is_the_same_package_wherever_the_native_one_lost_a_part(
    fresh: Path, case: dict[str, Any]
) -> None:
    root, target = fresh / "valid" / case["source"], fresh / "saved"
    editor = modelpackage.edit(root)
    mode = modelpackage.WriteMode[case["mode"]]
    before = json.dumps(modelpackage.info(editor.package)).replace(str(root), "$")
    # what it looked for in vain, because it hadn't saved it
    lost = any(part in case.get("message", "") for part in ("${DEST}", "to anchor it"))
    if not case["ok"] and not lost:
        with pytest.raises(REFUSED[case["exception"]]):
            editor.save_as(target, mode)
        assert not target.exists()
        return
    editor.save_as(target, mode)
    after = json.dumps(modelpackage.info(modelpackage.open(target))).replace(str(target), "$")
    placed = after.replace("$/shared_assets", "$/assets") if "$/assets" in before else after
    assert placed == before


@pytest.mark.skipif(not hasattr(onnxruntime, "ModelPackage"), reason="came with ONNX Runtime 1.32")
@pytest.mark.parametrize(
    "name", [name for name, case in EXPECTED["valid"].items() if "ort_session" in case]
)
@pytest.mark.parametrize("mode", modelpackage.WriteMode)
def test_the_runtime_loads_from_what_was_saved_what_it_loaded_from_the_original(
    fresh: Path, name: str, mode: modelpackage.WriteMode
) -> None:
    with modelpackage.edit(fresh / "valid" / name) as editor:
        for component in list(editor.package.components.values()):
            for variant in component.variants.values():
                for namespace, info in variant.executor_info.items():
                    value = info.value
                    assert isinstance(value, dict)
                    editor.set_executor_info(component.name, variant.name, namespace, value)
        editor.save_as(fresh / "saved", mode)
    shutil.rmtree(fresh / "valid")
    shutil.rmtree(fresh / "_external")
    expected = EXPECTED["valid"][name]["ort_session"]["value"]
    context = onnxruntime.ModelPackageContext(str(fresh / "saved"))
    (component_name,) = context.get_component_names()
    options = onnxruntime.ModelPackageOptions(onnxruntime.SessionOptions())
    chosen = context.select_component(component_name, options)
    assert chosen.get_selected_variant_name() == expected["variant"]
    (output,) = chosen.create_session().run(None, {"X": np.zeros(2, np.float32)})
    assert output.tolist() == expected["output_for_zero_input"]
