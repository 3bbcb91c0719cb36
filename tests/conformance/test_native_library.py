"""A generation is an ORT model package: the native library opens it, and may rewrite it."""

from __future__ import annotations

import json
import os
from typing import TYPE_CHECKING

import pytest
from support import models
from support.daemon import Daemon
from support.services import ME, MODEL, Running

from sealcar import ort, publish
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


def test_a_wanted_edit_of_the_native_library_is_resealed_and_loads(tmp_path: Path) -> None:
    model = tmp_path / "det.onnx"
    model.write_bytes(models.whole_model())
    daemon = Daemon(tmp_path)
    daemon.grant(os.getuid(), rights=("reseal",))
    with daemon, daemon.connect() as client:
        with publish.plan(model, name="ocr", component="det") as plan:
            client.catalogue.import_(plan)
        package = onnxruntime.ModelPackage.open(str(daemon.store / "ocr/1/g/1"))
        try:
            options = {"session.intra_op.allow_spinning": "0"}
            info = {"ort": {"model_file": "det.onnx", "session_options": options}}
            body = {"ep": "CPUExecutionProvider", "device": "cpu", "executor_info": info}
            package.set_variant("det", "onnx", json.dumps(body))
            package.commit()
        finally:
            package.close()
        with pytest.raises(NotAuthenticError):
            ort.load(client, "ocr", component="det", variant="onnx")
        seen = client.catalogue.reseal("ocr")
        assert "/components/det/variants/onnx" in seen.changed
        client.catalogue.reseal("ocr", manifest_sha256=seen.manifest_sha256)
        session = ort.load(client, "ocr", component="det")
        (answer,) = session.run(None, models.sample_input())
        (plain,) = onnxruntime.InferenceSession(model).run(None, models.sample_input())
        assert (answer == plain).all()
        assert client.catalogue.get("ocr").variants[0].ep == "CPUExecutionProvider"
