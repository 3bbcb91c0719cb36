"""The golden packages: what the native library made of them is what we make of them."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

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
