"""What the settings list is got ready as far as it can be."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pytest
from support.services import Running

from sealcar.address import Address
from sealcar_server.service.values import ScopeKey

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from sealcar_server.service.standing import Standing


@pytest.fixture
def running(tmp_path: Path) -> Iterator[Running]:
    with Running(tmp_path) as running:
        running.import_("ocr")
        running.add_variant(ScopeKey("ocr", "1", "det", "qnn"))
        yield running


@pytest.fixture
def standing(running: Running) -> Standing:
    standing = running.service.standing
    standing.want([Address("ocr"), Address("ocr", "1", "rec", "onnx")], shared=False)
    return standing


def test_what_is_damaged_keeps_nothing_else_from_being_got_ready(
    running: Running, standing: Standing, capsys: pytest.CaptureFixture[str]
) -> None:
    os.truncate(running.generation(number=2) / "det/onnx/model.onnx", 10)
    standing._run()
    said = capsys.readouterr().out
    assert said.count("isn't got ready") == 2
    assert "ocr@1/det/onnx/model.onnx: 10 bytes are no sealed payload" in said
    assert "ocr@1/rec/onnx has no variant" in said
    assert said.count("bytes=") == 1
    assert f"bytes={len(b'compiled')}" in said


def test_a_lock_ends_it_without_a_word(
    running: Running, standing: Standing, capsys: pytest.CaptureFixture[str]
) -> None:
    running.service.keys.lock()
    capsys.readouterr()
    standing._run()
    assert not capsys.readouterr().out


def test_nothing_begins_once_the_daemon_stops(
    running: Running, standing: Standing, capsys: pytest.CaptureFixture[str]
) -> None:
    standing.close()
    running.close()
    standing._run()
    assert not capsys.readouterr().out
