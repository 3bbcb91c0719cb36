"""Imports that were overtaken on their way in: a version never holds two packages at once."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest
from support.sealed_exports import sealed_files, with_key_of
from support.services import ME, MODEL, Running, manifest

from sealcar.errors import AlreadyExistsError
from sealcar_server.service.assembly import Limits
from sealcar_server.service.pruning import Wanted
from sealcar_server.service.values import ImportPlan, ScopeKey

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from support.sealed_exports import SealedFiles

    from sealcar_server.service.importers import Session

SCOPE = ScopeKey("ocr", "1", "det", "onnx")


@pytest.fixture
def grown(tmp_path: Path) -> Iterator[tuple[Running, SealedFiles]]:
    """Give an empty store, and the export of a package's third generation under the same key."""
    with Running(tmp_path / "origin") as origin:
        origin.import_()
        for name in ("one", "two"):
            origin.add_variant(ScopeKey("ocr", "1", "det", name))
        files = sealed_files(origin.generation(number=3))
    root = with_key_of(tmp_path / "origin", tmp_path / "root")
    with Running(root, limits=Limits(used_lately=0.0)) as running:
        yield running, files


def begun(running: Running) -> Session:
    """Begin a plain import of version 1, all of whose bytes have come."""
    plan = ImportPlan("ocr", "1", json.dumps(manifest(("det", "onnx"))))
    session = running.packages.import_(ME, plan)
    session.payload("det", "onnx", "model.onnx", "model", 4)
    session.data(b"late")
    return session


def refused(running: Running, session: Session, numbers: tuple[int, ...]) -> None:
    with pytest.raises(AlreadyExistsError):
        running.packages.publish(ME, session, 1)
    assert running.looking.get(ME, "ocr").generations == numbers
    assert running.read(SCOPE) == MODEL
    assert not any((running.store_path / ".staging").iterdir())


def test_an_import_that_a_sealed_export_overtook_leaves_no_second_package(
    grown: tuple[Running, SealedFiles],
) -> None:
    running, files = grown
    with begun(running) as session:
        assert files.send(running).generation == 3
        refused(running, session, (3,))


def test_an_import_whose_first_number_was_pruned_meanwhile_leaves_no_second_package(
    grown: tuple[Running, SealedFiles],
) -> None:
    running, _ = grown
    with begun(running) as session:
        running.import_()
        for name in ("one", "two"):
            running.add_variant(ScopeKey("ocr", "1", "det", name))
        running.service.pruning.prune(ME, Wanted("ocr"))
        refused(running, session, (3, 2))
