"""A revoked version is refused at once: by caches, by calls under way, and after a restart."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from support.rotating import turn
from support.services import KEK, ME, MODEL, Running

from sealcar.errors import (
    InvalidRequestError,
    KeyRefusedError,
    NotFoundError,
    StorageError,
    WrongStateError,
)
from sealcar_server.service.revocations import FILE
from sealcar_server.service.rewrapping import Wanted
from sealcar_server.service.values import ScopeKey

if TYPE_CHECKING:
    from pathlib import Path

NEWEST = ScopeKey("ocr", "1", "det", "onnx")
OLDER = ScopeKey("ocr", "1", "det", "onnx", 1)


def test_what_is_under_it_is_refused_though_it_was_open(tmp_path: Path) -> None:
    with Running(tmp_path) as running:
        running.import_()
        turn(running)
        assert running.read(OLDER) == MODEL
        done = running.service.keys.revoke("1")
        assert (done.alias, done.packages, done.older) == (KEK, 0, 1)
        with pytest.raises(KeyRefusedError) as caught:
            running.read(OLDER)
        assert "revoked" in caught.value.message
        assert running.read(NEWEST) == MODEL


def test_a_transfer_under_way_loses_its_permit(tmp_path: Path) -> None:
    with Running(tmp_path) as running:
        running.import_()
        running.import_("other")
        running.service.keys.rotate()
        running.import_("new")
        running.service.keys.rewrap(Wanted(packages=(("ocr", ""),)), lambda *_: None)
        running.service.keys.rewrap(Wanted(from_version="1"), lambda *_: None)
        with (
            running.payloads.read(ME, OLDER, "model.onnx", running.scratch) as old,
            running.payloads.read(
                ME, ScopeKey("new", "1", "det", "onnx"), "model.onnx", running.scratch
            ) as new,
        ):
            running.service.keys.revoke("1")
            with pytest.raises(KeyRefusedError):
                old.permit.check()
            new.permit.check()
        # what is begun now isn't ended by what ended before
        with running.payloads.read(ME, NEWEST, "model.onnx", running.scratch) as again:
            again.permit.check()


def test_it_holds_after_a_restart(tmp_path: Path) -> None:
    with Running(tmp_path) as running:
        running.import_()
        turn(running)
        running.service.keys.revoke("1")
        running.service.keys.revoke("1")
    with Running(tmp_path) as again:
        assert again.service.keys.revoked(KEK) == ["1"]
        with pytest.raises(KeyRefusedError):
            again.read(OLDER)
        assert again.read(NEWEST) == MODEL


def test_without_a_readable_memory_no_daemon_starts(tmp_path: Path) -> None:
    with Running(tmp_path) as running:
        running.import_()
        turn(running)
        running.service.keys.revoke("1")
    (tmp_path / "state" / FILE).write_text("{}")
    with pytest.raises(StorageError):
        Running(tmp_path)


def test_what_the_daemon_needs_itself_cant_be_revoked(tmp_path: Path) -> None:
    with Running(tmp_path) as running:
        running.import_()
        with pytest.raises(WrongStateError, match="rotate"):
            running.service.keys.revoke("1")
        running.service.keys.rotate()
        running.service.keys.rewrap(Wanted(packages=(("ocr", ""),)), lambda *_: None)
        with pytest.raises(WrongStateError, match="rewrap"):
            running.service.keys.revoke("1")
        with pytest.raises(NotFoundError):
            running.service.keys.revoke("7")
        with pytest.raises(InvalidRequestError):
            running.service.keys.revoke("")
        with pytest.raises(KeyRefusedError):
            running.service.keys.revoke("1", "nobody")
        assert running.service.keys.revoked(KEK) == []


def test_transactions_on_what_is_lost_are_aborted_and_no_others(tmp_path: Path) -> None:
    with Running(tmp_path) as running:
        running.import_()
        running.import_("lost")
        # a generation that can't be moved stays where it is
        (running.generation("lost") / "det/onnx/model.onnx").unlink()
        kept = running.begin(ScopeKey("ocr", "1", "det", "qnn"))
        lost = running.begin(ScopeKey("lost", "1", "det", "qnn"))
        running.service.keys.rotate()
        running.service.keys.rewrap(Wanted(), lambda *_: None)
        done = running.service.keys.revoke("1")
        assert (done.packages, done.older, done.aborted) == (1, 1, 1)
        assert lost.ended
        assert not kept.ended
        with pytest.raises(KeyRefusedError):
            running.service.payloads.begin(ME, ScopeKey("lost", "1", "det", "qnn"))
        moved = running.service.keys.rewrap(Wanted(), lambda *_: None)
        assert [type(error) for error in moved.failures] == [KeyRefusedError]
        kept.abort()
