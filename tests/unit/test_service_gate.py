"""What operators take away ends what was allowed before, and nothing that is allowed after it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from support.services import ME, MODEL, Running, everything_for

from sealcar.errors import NotFoundError
from sealcar_server.access.permit import Permit
from sealcar_server.access.policy import Right
from sealcar_server.service.gate import Gate
from sealcar_server.service.values import ScopeKey

if TYPE_CHECKING:
    from pathlib import Path


def permit(gate: Gate, package: str = "ocr") -> Permit:
    return Permit(gate, ME, Right.READ, package)


def test_what_ended_ends_older_permits_alone_however_often_something_changes() -> None:
    gate = Gate(everything_for(ME.uid))
    older, other = permit(gate), permit(gate, "asr")
    gate.end(["ocr"], NotFoundError("the package was shredded"))
    newer = permit(gate)
    gate.end(["kws"], NotFoundError("the package was shredded"))
    for _ in range(2):
        with pytest.raises(NotFoundError, match="shredded"):
            older.check()
        newer.check()
        other.check()


def test_a_version_that_came_after_another_was_shredded_is_read_on(tmp_path: Path) -> None:
    with Running(tmp_path) as running:
        for name in ("ocr", "asr"):
            running.import_(name)
        running.service.keys.shred("ocr", "1")
        running.import_("ocr", "2")
        scope = ScopeKey("ocr", "2", "det", "onnx")
        with running.payloads.read(ME, scope, "model.onnx", running.scratch) as source:
            running.service.keys.shred("asr", "1")
            source.permit.check()
        assert running.read(scope) == MODEL
