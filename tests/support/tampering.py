"""A store that a daemon filled, and the ways to tamper with it."""

from __future__ import annotations

import base64
import json
from typing import TYPE_CHECKING, Any

import pytest
from support.services import ME, MODEL, Running

from sealcar.errors import (
    SealcarError,
)
from sealcar_server.sealing.layout import SEGMENT
from sealcar_server.service.values import ScopeKey

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

ONNX = ScopeKey("ocr", "1", "det", "onnx")
OTHER = bytes(reversed(MODEL))
SECOND = "second.onnx"
FILES = {
    ("det", "onnx", "model.onnx"): MODEL,
    ("det", "onnx", SECOND): OTHER,
    ("det", "qnn", "model.onnx"): OTHER,
    ("rec", "onnx", "model.onnx"): OTHER,
}


def refused(root: Path, scope: ScopeKey = ONNX, name: str = "model.onnx") -> SealcarError:
    """Return the error of a read, and make sure that no byte was visible before it."""
    with Running(root) as running:
        running.scratch.plain[:] = bytes(SEGMENT)
        with pytest.raises(SealcarError) as caught:
            running.payloads.read(ME, scope, name, running.scratch)
        plain = bytes(running.scratch.plain)
        assert not any(plain), "the scratch that the answer would come from must be wiped"
        with pytest.raises(type(caught.value)):
            running.packages.verify(ME, scope.package, scope.version, 0, lambda *_: None)
    return caught.value


def read_refused(root: Path, index: int) -> SealcarError:
    """Return the error of one segment of a payload that opens; the others must not be served."""
    with Running(root) as running:
        source = running.payloads.read(ME, ONNX, "model.onnx", running.scratch)
        with source, pytest.raises(SealcarError) as caught:
            source.reader.read_segment(index, running.scratch)
        assert not any(running.scratch.plain)
        with pytest.raises(type(caught.value)):
            running.packages.verify(ME, "ocr", "1", 0, lambda *_: None)
    return caught.value


def edit(path: Path, change: Callable[[bytearray], None]) -> None:
    data = bytearray(path.read_bytes())
    change(data)
    path.write_bytes(data)


def flip(path: Path, at: int) -> None:
    def change(data: bytearray) -> None:
        data[at] ^= 1

    edit(path, change)


def swap(one: Path, two: Path) -> None:
    first, second = one.read_bytes(), two.read_bytes()
    one.write_bytes(second)
    two.write_bytes(first)


def edit_manifest(generation: Path, change: Callable[[dict[str, Any]], None]) -> None:
    path = generation / "manifest.json"
    value = json.loads(path.read_bytes())
    change(value)
    path.write_text(json.dumps(value))


def edit_record(generation: Path, change: Callable[[dict[str, Any]], None]) -> None:
    def inside(manifest: dict[str, Any]) -> None:
        envelope = manifest["additional_metadata"]["sealcar"]
        text = envelope["record"]
        record = json.loads(base64.urlsafe_b64decode(text + "=" * (-len(text) % 4)))
        change(record)
        raw = json.dumps(record, separators=(",", ":")).encode()
        envelope["record"] = base64.urlsafe_b64encode(raw).rstrip(b"=").decode()

    edit_manifest(generation, inside)
