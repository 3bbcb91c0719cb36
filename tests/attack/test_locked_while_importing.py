"""A daemon that is locked while an import is being published opens nothing more of it."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest
from support.sealed_exports import sealed_files, with_key_of
from support.services import KEK, ME, Running, manifest

from sealcar.errors import LockedError
from sealcar_server.service.outgoing import Outgoing
from sealcar_server.service.transit import Recipient
from sealcar_server.service.values import ImportPlan
from sealcar_server.store.generation import MANIFEST

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from sealcar_server.sealing.scratch import Scratch
    from sealcar_server.service.checking import Opening, Staged
    from sealcar_server.service.exporting import Export


class Slow:
    """Has the daemon locked while it looks."""

    daemon: Running
    opened = False

    def check(self, staged: Sequence[Staged], opening: Opening, scratch: Scratch) -> None:
        self.daemon.service.keys.lock()
        opening(staged[0], staged[0].payloads[0], scratch).close()
        self.opened = True


@pytest.fixture
def slow(tmp_path: Path) -> Slow:
    with Running(tmp_path / "origin") as origin:
        origin.import_()
    slow = Slow()
    slow.daemon = Running(with_key_of(tmp_path / "origin", tmp_path / "root"), checker=slow)
    return slow


def manifest_of(export: Export, running: Running) -> str:
    """Return the manifest that leaves."""
    found, path = bytearray(), ""
    for step in export.steps(running.scratch):
        if isinstance(step, Outgoing):
            path = step.path
        elif isinstance(step, bytes) and path == MANIFEST:
            found += step
    return found.decode()


def test_a_lock_ends_an_import_that_is_being_published(slow: Slow) -> None:
    with slow.daemon as running:
        plan = ImportPlan("ocr", "1", json.dumps(manifest(("det", "onnx"))))
        with running.packages.import_(ME, plan) as session:
            session.payload("det", "onnx", "model.onnx", "model", 5)
            session.data(b"model")
            with pytest.raises(LockedError):
                running.packages.publish(ME, session, 1)
        assert not slow.opened
        assert not any((running.store_path / ".staging").iterdir())


def test_a_lock_ends_an_import_of_what_somebody_sent(slow: Slow, tmp_path: Path) -> None:
    with Running(tmp_path / "origin") as origin:
        export = origin.service.exporter.export(ME, ("ocr", "", 0), recipient=Recipient(KEK))
        files = replace(sealed_files(origin.generation()), manifest=manifest_of(export, origin))
    with slow.daemon as running:
        with pytest.raises(LockedError):
            files.send(running)
        assert not slow.opened
