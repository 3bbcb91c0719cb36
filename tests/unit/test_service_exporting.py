"""What of a generation leaves, whatever was done to its manifest."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest
from support.services import ME, MODEL, Running
from support.tampering import FILES, edit_manifest

from sealcar.errors import LockedError, NotAuthenticError, NotFoundError, TruncatedError
from sealcar_server.service.exporting import Begun, Preparing
from sealcar_server.service.outgoing import Outgoing
from sealcar_server.service.values import ScopeKey

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

PLACE = ("ocr", "", 0)


@pytest.fixture
def running(tmp_path: Path) -> Iterator[Running]:
    with Running(tmp_path) as running:
        running.import_(payloads=FILES)
        yield running


def exported(running: Running, *, plain: bool = False) -> dict[str, bytes]:
    """Return the files of an export, by their paths."""
    files: dict[str, bytearray] = {}
    begun: list[Begun] = []
    for step in running.service.exporter.export(ME, PLACE, plain=plain).steps(running.scratch):
        if isinstance(step, Begun):
            begun.append(step)
        elif isinstance(step, Outgoing):
            files[step.path] = current = bytearray()
            announced = step.size
        elif not isinstance(step, Preparing):
            current += step
            assert len(current) <= announced
            assert len(step) <= 1 << 20
    assert list(files) == sorted(files)
    assert begun == [Begun(len(files), sum(map(len, files.values())))]
    return {path: bytes(data) for path, data in files.items()}


@pytest.mark.parametrize("plain", [False, True])
def test_of_a_file_no_piece_leaves_after_the_right_has_ended(
    running: Running, *, plain: bool
) -> None:
    steps = running.service.exporter.export(ME, PLACE, plain=plain).steps(running.scratch)
    sizes = {step.path: step.size for step in steps if isinstance(step, Outgoing)}
    assert sizes["det/onnx/model.onnx"] > 1 << 20, "it takes more than one piece"
    steps = running.service.exporter.export(ME, PLACE, plain=plain).steps(running.scratch)
    for step in steps:
        if isinstance(step, Outgoing) and step.path == "det/onnx/model.onnx":
            break
    assert not isinstance(next(steps), Outgoing)
    running.service.keys.lock()
    with pytest.raises(LockedError):
        next(steps)


def manifest_in(files: dict[str, bytes]) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(files["manifest.json"])
    return found


def test_the_files_come_in_the_order_of_their_paths_and_add_up(running: Running) -> None:
    sealed, plain = exported(running), exported(running, plain=True)
    assert sealed.keys() == plain.keys()
    assert len(sealed) == len(FILES) + 1
    assert plain["det/onnx/model.onnx"] == MODEL
    assert sealed["det/onnx/model.onnx"] != MODEL


def add_variant(manifest: dict[str, Any]) -> None:
    manifest["components"]["det"]["variants"]["extra"] = {"variant_directory": "det/extra"}


@pytest.mark.parametrize("plain", [False, True])
def test_a_variant_that_isnt_sealed_doesnt_leave(running: Running, *, plain: bool) -> None:
    edit_manifest(running.generation(), add_variant)
    (running.generation() / "det/extra").mkdir()
    (running.generation() / "det/extra/model.onnx").write_bytes(b"not sealed")
    files = exported(running, plain=plain)
    variants = manifest_in(files)["components"]["det"]["variants"]
    assert set(variants) == {"onnx", "qnn"}
    assert not [path for path in files if "extra" in path]


@pytest.mark.parametrize("plain", [False, True])
def test_a_package_that_lost_a_variant_doesnt_leave(running: Running, *, plain: bool) -> None:
    edit_manifest(running.generation(), lambda manifest: manifest["components"].pop("rec"))
    with pytest.raises(TruncatedError, match="lacks variant"):
        running.service.exporter.export(ME, PLACE, plain=plain)


def test_what_others_wrote_into_the_manifest_since_leaves_if_nothing_sealed_changed(
    running: Running,
) -> None:
    exported(running)  # so that it is remembered
    edit_manifest(running.generation(), lambda manifest: manifest.update(description="mine"))
    assert manifest_in(exported(running))["description"] == "mine"
    edit_manifest(running.generation(), lambda manifest: manifest.update(package_name="forged"))
    with pytest.raises(NotAuthenticError, match="package_name"):
        exported(running)


def test_a_manifest_with_another_record_than_when_it_was_opened_doesnt_leave(
    running: Running,
) -> None:
    exported(running)
    running.add_variant(ScopeKey("ocr", "1", "det", "new"))
    newer = json.loads((running.generation(number=2) / "manifest.json").read_bytes())
    edit_manifest(running.generation(), lambda manifest: manifest.update(newer))
    with pytest.raises(NotAuthenticError, match="another seal record"):
        running.service.exporter.export(ME, ("ocr", "1", 1))


def test_a_file_that_is_cut_or_gone_ends_the_export(running: Running) -> None:
    place = running.generation() / "det/onnx/model.onnx"
    sealed = place.read_bytes()
    place.write_bytes(sealed[:-1])
    with pytest.raises(TruncatedError, match=r"model\.onnx"):
        exported(running)
    place.unlink()
    with pytest.raises(TruncatedError, match="missing"):
        exported(running)


def test_a_generation_that_is_removed_meanwhile_ends_the_export(running: Running) -> None:
    steps = running.service.exporter.export(ME, PLACE).steps(running.scratch)
    next(steps)
    running.service.removing.remove(ME, "ocr", "1")
    with pytest.raises(NotFoundError, match="removed"):
        list(steps)


def test_a_locked_daemon_exports_nothing(running: Running) -> None:
    steps = running.service.exporter.export(ME, PLACE, plain=True).steps(running.scratch)
    next(steps)
    running.service.keys.lock()
    with pytest.raises(LockedError):
        list(steps)
    with pytest.raises(LockedError):
        running.service.exporter.export(ME, PLACE)
