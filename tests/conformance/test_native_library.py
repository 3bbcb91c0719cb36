"""A generation is an ORT model package: the native library opens it, and may rewrite it."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pytest
from support.services import ME, MODEL, Running

from sealcar.errors import NotAuthenticError
from sealcar_server.service.values import ScopeKey

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

os.environ.setdefault("ORT_DISABLE_TELEMETRY", "1")
onnxruntime = pytest.importorskip("onnxruntime")
pytestmark = [
    pytest.mark.ort132,
    pytest.mark.skipif(
        not hasattr(onnxruntime, "ModelPackage"), reason="ONNX Runtime has no package library"
    ),
]
ONNX = ScopeKey("ocr", "", "det", "onnx")


@pytest.fixture
def running(tmp_path: Path) -> Iterator[Running]:
    with Running(tmp_path) as running:
        running.import_()
        running.add_variant(ScopeKey("ocr", "", "det", "qnn"))
        yield running


def test_the_native_library_opens_a_generation(running: Running) -> None:
    package = onnxruntime.ModelPackage.open(str(running.generation(number=2)))
    try:
        (component,) = package.get_info()["components"]
    finally:
        package.close()
    assert [variant["name"] for variant in component["variants"]] == ["onnx", "qnn"]
    for variant in component["variants"]:
        assert variant["executor_info"]["sealcar"] == '{"format":"1"}'


def rewritten(running: Running, description: str, ep: str | None = None) -> None:
    package = onnxruntime.ModelPackage.open(str(running.generation(number=2)))
    try:
        package.set_metadata(None, None, description)
        if ep is not None:
            body = f'{{"ep": "{ep}", "variant_directory": "det/onnx"}}'
            package.set_variant("det", "onnx", body)
        package.commit()
    finally:
        package.close()


def test_what_the_native_library_rewrote_stays_valid(running: Running, tmp_path: Path) -> None:
    path = running.generation(number=2) / "manifest.json"
    before = path.read_bytes()
    rewritten(running, "rewritten")
    assert path.read_bytes() != before
    running.close()
    with Running(tmp_path) as again:
        assert again.read(ONNX) == MODEL
        assert again.looking.get(ME, "ocr").description == "rewritten"


def test_what_the_native_library_changed_is_refused(running: Running, tmp_path: Path) -> None:
    rewritten(running, "changed", ep="QNNExecutionProvider")
    running.close()
    with Running(tmp_path) as again, pytest.raises(NotAuthenticError, match="variants/onnx"):
        again.read(ONNX)
