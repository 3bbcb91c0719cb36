"""The comparisons with ONNX Runtime's own library that `make test` makes, many times over."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from hypothesis import HealthCheck, given, settings
from support import package_oracle, package_world
from support.package_manifests import documents, flags

from sealcar import modelpackage

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = [
    pytest.mark.skipif(not package_oracle.AVAILABLE, reason="came with ONNX Runtime 1.32"),
    pytest.mark.timeout(7200),
]


@pytest.fixture(scope="module")
def package(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return package_world.build(tmp_path_factory.mktemp("soak"))


@given(document=documents, flags=flags)
@settings(
    max_examples=200_000,
    deadline=None,
    database=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
def test_200_000_random_packages_open_here_as_they_do_there(
    package: Path, document: bytes, flags: tuple[bool, bool, bool]
) -> None:
    rules = modelpackage.Rules(*flags)
    (package / "manifest.json").write_bytes(document)
    here = package_oracle.our_outcome(lambda: package_oracle.our_info(package, rules))
    assert here == package_oracle.outcome(lambda: package_oracle.native_info(package, rules))


@pytest.mark.parametrize("seed", range(4))
def test_200_000_random_references_lead_to_the_same_places(package: Path, seed: int) -> None:
    assert package_oracle.different_references(package, 50_000, seed) == []


if package_oracle.AVAILABLE:
    from support.package_machine import Machine

    TestAuthoring = Machine.TestCase
    TestAuthoring.settings = settings(
        max_examples=5_000,
        stateful_step_count=20,
        deadline=None,
        database=None,
        suppress_health_check=list(HealthCheck),
    )
