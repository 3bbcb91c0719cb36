"""Random packages, opened by us and by ONNX Runtime's own library, with the same outcome."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import HealthCheck, given, settings
from support import package_oracle, package_world
from support.package_manifests import documents, flags

from sealcar import modelpackage

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.skipif(
    not package_oracle.AVAILABLE, reason="ONNX Runtime 1.32 brought the library"
)


@pytest.fixture(scope="module")
def package(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return package_world.build(tmp_path_factory.mktemp("native"))


@given(document=documents, flags=flags)
@settings(
    max_examples=3000,
    deadline=None,
    derandomize=True,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
def test_a_random_package_opens_here_as_it_does_there(
    package: Path, document: bytes, flags: tuple[bool, bool, bool]
) -> None:
    rules = modelpackage.Rules(*flags)
    (package / "manifest.json").write_bytes(document)
    here = package_oracle.our_outcome(lambda: package_oracle.our_info(package, rules))
    assert here == package_oracle.outcome(lambda: package_oracle.native_info(package, rules))


def test_random_references_lead_to_the_same_places(package: Path) -> None:
    assert package_oracle.different_references(package, 8_000, seed=1) == []


@pytest.mark.parametrize(
    "components",
    [
        {"c": "c.json\0x"},
        {"c": {"variants": {"v\0x": {}}}},
        {"c": {"variants": {"v": {"variant_directory": "v\0x"}}}},
        {"c": {"variants": {"v": {"executor_info": {"own": "info.json\0x"}}}}},
    ],
)
def test_a_path_that_ends_at_a_nul_there_is_refused_here(
    package: Path, components: dict[str, Any]
) -> None:
    manifest = {"schema_version": "1.0", "components": components}
    (package / "manifest.json").write_text(json.dumps(manifest))
    package_oracle.native_info(package, modelpackage.Rules())
    with pytest.raises(modelpackage.InvalidPathError):
        modelpackage.open(package)


def test_a_document_that_is_too_deep_opens_only_there(package: Path) -> None:
    depth = modelpackage.Limits().depth
    text = '{"schema_version":"1.0","components":{},"additional_metadata":%s}'
    (package / "manifest.json").write_text(text % ("[" * depth + "]" * depth))
    package_oracle.native_info(package, modelpackage.Rules())
    with pytest.raises(modelpackage.LimitError):
        modelpackage.open(package)
    limits = modelpackage.Limits(depth=depth + 1)
    deeper = modelpackage.Rules(limits=limits)
    assert package_oracle.our_info(package, deeper) == package_oracle.native_info(package, deeper)
