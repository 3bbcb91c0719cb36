"""Whoever can write to the store can't show an older one, or another one, unnoticed."""

from __future__ import annotations

import json
import shutil
from typing import TYPE_CHECKING

import pytest
from support.services import ME, Running
from support.tampering import (
    FILES,
    OTHER,
    refused,
)

from sealcar.errors import (
    NotAuthenticError,
    RolledBackError,
)
from sealcar_server.service.values import ScopeKey

if TYPE_CHECKING:
    from pathlib import Path


def test_a_generation_copied_as_a_newer_number_is_refused(root: Path, generation: Path) -> None:
    shutil.copytree(generation, generation.parent / "2")
    assert isinstance(refused(root), NotAuthenticError)


@pytest.fixture
def two(root: Path) -> Path:
    """Give the daemon's directory after variant qnn was replaced: generation 2."""
    with Running(root) as running:
        assert running.add_variant(ScopeKey("ocr", "1", "det", "qnn"), OTHER[::-1]).generation == 2
    return root


def test_a_mix_of_generations_is_refused(two: Path) -> None:
    older, newer = (two / f"store/ocr/1/g/{n}" for n in (1, 2))
    shutil.copy(older / "det/qnn/model.onnx", newer / "det/qnn/model.onnx")
    assert isinstance(refused(two, ScopeKey("ocr", "1", "det", "qnn")), NotAuthenticError)


def test_an_older_manifest_in_a_newer_generation_is_refused(two: Path) -> None:
    older, newer = (two / f"store/ocr/1/g/{n}" for n in (1, 2))
    shutil.copy(older / "manifest.json", newer / "manifest.json")
    assert isinstance(refused(two), NotAuthenticError)


def test_a_store_that_was_rolled_back_is_refused(two: Path) -> None:
    shutil.rmtree(two / "store/ocr/1/g/2")
    error = refused(two)
    assert isinstance(error, RolledBackError)
    assert "2 was seen before" in str(error)


def test_a_newest_generation_without_manifest_is_no_way_back(two: Path) -> None:
    (two / "store/ocr/1/g/2/manifest.json").unlink()
    assert isinstance(refused(two), RolledBackError)


def test_a_package_that_vanished_is_refused_as_rolled_back(two: Path) -> None:
    shutil.rmtree(two / "store/ocr")
    assert isinstance(refused(two), RolledBackError)


def test_an_older_generation_is_still_served_to_whoever_names_it(two: Path) -> None:
    with Running(two) as running:
        assert running.read(ScopeKey("ocr", "1", "det", "qnn", 1)) == OTHER
        assert running.read(ScopeKey("ocr", "1", "det", "qnn")) == OTHER[::-1]


@pytest.fixture
def forked(root: Path, tmp_path: Path) -> Path:
    """Give the daemon's directory after it saw a generation 2, with another daemon's 2 to 4."""
    fork = tmp_path / "fork"
    shutil.copytree(root, fork)
    with Running(root) as running:
        running.add_variant(ScopeKey("ocr", "1", "det", "new"))
    with Running(fork) as running:
        for variant in ("new", "newer", "newest"):
            running.add_variant(ScopeKey("ocr", "1", "det", variant), variant.encode())
    shutil.rmtree(root / "store/ocr/1/g")
    shutil.copytree(fork / "store/ocr/1/g", root / "store/ocr/1/g")
    return root


@pytest.mark.parametrize("newest", [2, 3, 4])
def test_a_forked_history_is_refused(forked: Path, newest: int) -> None:
    for number in range(newest + 1, 5):
        shutil.rmtree(forked / f"store/ocr/1/g/{number}")
    error = refused(forked)
    assert isinstance(error, RolledBackError)
    assert "2 that was seen before" in str(error)


def test_a_predecessor_from_elsewhere_is_refused(forked: Path) -> None:
    generations = forked / "store/ocr/1/g"
    shutil.copy(generations / "1/manifest.json", generations / "3/manifest.json")
    assert isinstance(refused(forked), RolledBackError)


@pytest.fixture
def versions(root: Path) -> Path:
    """Give the daemon's directory with the pointer of version 1 kept, and version 2 current."""
    shutil.copy(root / "store/ocr/current", root / "old-pointer")
    with Running(root) as running:
        running.import_("ocr", "2", payloads=FILES)
        assert running.looking.get(ME, "ocr").summary.version == "2"
    return root


CURRENT = ScopeKey("ocr", "", "det", "onnx")


def test_an_old_pointer_to_the_current_version_is_refused(versions: Path) -> None:
    shutil.copy(versions / "old-pointer", versions / "store/ocr/current")
    error = refused(versions, CURRENT)
    assert isinstance(error, RolledBackError)
    assert "pointer" in str(error)


def test_a_removed_pointer_is_refused(versions: Path) -> None:
    (versions / "store/ocr/current").unlink()
    assert isinstance(refused(versions, CURRENT), RolledBackError)


def test_an_edited_pointer_is_refused(versions: Path) -> None:
    path = versions / "store/ocr/current"
    value = json.loads(path.read_bytes())
    value["record"] = value["record"][:-4] + "AAAA"
    path.write_text(json.dumps(value))
    assert isinstance(refused(versions, CURRENT), NotAuthenticError)


def test_the_pointer_of_another_package_is_refused(versions: Path) -> None:
    shutil.copy(versions / "store/det-only/current", versions / "store/ocr/current")
    error = refused(versions, CURRENT)
    assert isinstance(error, NotAuthenticError)
    assert "det-only" in str(error)
