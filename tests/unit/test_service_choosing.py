"""One of several versions is current: whoever may manage the package says which."""

from __future__ import annotations

import shutil
from typing import TYPE_CHECKING

import pytest
from support.services import ME, Running

from sealcar.errors import (
    DamagedError,
    InvalidRequestError,
    NotAuthenticError,
    NotFoundError,
    RolledBackError,
)
from sealcar_server.service.values import ScopeKey

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

SCOPE = ScopeKey("ocr", "", "det", "onnx")


@pytest.fixture
def running(tmp_path: Path) -> Iterator[Running]:
    with Running(tmp_path) as running:
        for version in ("1", "2"):
            data = f"version {version}".encode()
            running.import_("ocr", version, payloads={("det", "onnx", "model.onnx"): data})
        yield running


def choose(running: Running, version: str) -> str:
    return running.service.choosing.choose(ME, "ocr", version)


def test_another_version_becomes_current_and_says_which_one_was(running: Running) -> None:
    assert choose(running, "1") == "2"
    assert running.read(SCOPE) == b"version 1"
    assert [one.current for one in running.listing.list(ME)] == [True, False]
    assert choose(running, "1") == "1"
    running.close()
    with Running(running.root) as again:
        assert again.read(SCOPE) == b"version 1"


def test_the_pointer_that_was_replaced_is_refused(running: Running) -> None:
    pointer = running.store_path / "ocr/current"
    old = pointer.read_bytes()
    choose(running, "1")
    pointer.write_bytes(old)
    with pytest.raises(RolledBackError, match="number 2; number 3 was seen"):
        running.read(SCOPE)
    # what is in the place of the pointer is the holder's own, if an old one: it is replaced
    assert choose(running, "1") == "2"
    assert running.read(SCOPE) == b"version 1"


def test_a_pointer_that_was_removed_can_be_made_anew(running: Running) -> None:
    (running.store_path / "ocr/current").unlink()
    with pytest.raises(RolledBackError):
        running.read(SCOPE)
    assert choose(running, "1") == ""
    assert running.read(SCOPE) == b"version 1"


def test_a_forged_pointer_stands_until_somebody_looked_at_it(running: Running) -> None:
    running.import_("asr", "7")
    pointer = running.store_path / "ocr/current"
    shutil.copy(running.store_path / "asr/current", pointer)
    with pytest.raises(NotAuthenticError):
        choose(running, "1")
    assert pointer.read_bytes() == (running.store_path / "asr/current").read_bytes()
    pointer.unlink()
    assert choose(running, "1") == ""


def test_nothing_points_at_a_version_that_does_not_open(running: Running) -> None:
    manifest = running.generation(version="1") / "manifest.json"
    manifest.write_bytes(manifest.read_bytes().replace(b'"tag": "', b'"tag": "A'))
    manifest.write_bytes(manifest.read_bytes().replace(b'"tag":"', b'"tag":"A'))
    running.close()
    with Running(running.root) as again:
        with pytest.raises(DamagedError):
            choose(again, "1")
        assert again.read(SCOPE) == b"version 2"


@pytest.mark.parametrize(("version", "kind"), [("", InvalidRequestError), ("9", NotFoundError)])
def test_a_version_that_is_none_becomes_no_current_one(
    running: Running, version: str, kind: type[Exception]
) -> None:
    with pytest.raises(kind):
        choose(running, version)
    assert running.read(SCOPE) == b"version 2"


def test_a_removed_version_becomes_no_current_one(running: Running) -> None:
    running.service.removing.remove(ME, "ocr", "1")
    with pytest.raises(NotFoundError):
        choose(running, "1")
