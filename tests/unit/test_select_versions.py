"""SDK versions are compared where they can be, and never guessed at."""

from __future__ import annotations

import pytest

from sealcar.onnxscan import EpContextNode, ModelScan
from sealcar.ort import fitting


@pytest.mark.parametrize(
    ("version", "here"),
    [
        ("2026.5", "2026.4"),
        ("v2.52.0.260929181845", "v2.51.0.260929181845"),
        ("2.10.0", "2.9.1"),
        ("10.0.0", "9.99.99"),
        ("1.8.2+95d534b.ci.79", "1.8.1"),
    ],
)
def test_a_newer_sdk_is_told_from_an_older_one(version: str, here: str) -> None:
    assert fitting.newer(version, here) is True
    assert fitting.newer(here, version) is False


def test_builds_of_one_release_are_equal() -> None:
    assert fitting.newer("v2.51.0.260929181845", "v2.51.0.250101000000") is False
    assert fitting.newer("v2.51.0", "2.51.0-rc1") is False


@pytest.mark.parametrize(
    ("version", "here"),
    [
        ("2026.5", "2026.4.1"),
        ("", "2.51"),
        ("newest", "2.51"),
        ("2.51", "v"),
        ("2.51 ", "2.51"),
        ("\u0662.\u0665", "2.5"),
        ("2." + "9" * 5000, "2.5"),
        ("-2.5", "2.5"),
    ],
)
def test_versions_that_are_written_in_different_ways_are_not_compared(
    version: str, here: str
) -> None:
    assert fitting.newer(version, here) is None
    assert fitting.newer(here, version) is None


def scan(*versions: str) -> ModelScan:
    nodes = [EpContextNode("n", "graph.node[0]", ep_sdk_version=each) for each in versions]
    return ModelScan((), tuple(nodes), {}, len(nodes))


def test_what_a_compiled_model_says_of_its_sdk_is_noted_once() -> None:
    noted = {"epcontext": {"sdk_versions": ["2.50", "2.51"]}}
    assert fitting.info_of(scan("2.51", "2.50", "", "2.51")) == noted
    assert fitting.info_of(scan("", "")) == {}
