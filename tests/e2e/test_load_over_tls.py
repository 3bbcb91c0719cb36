"""A model from a daemon elsewhere: the same session, by streams over mutual TLS."""

from __future__ import annotations

from typing import TYPE_CHECKING

from support import eps, flows, models
from support.tls import OCR, OPERATOR, Served

from sealcar import publish
from sealcar.ort import load

if TYPE_CHECKING:
    from pathlib import Path


def test_a_model_with_external_weights_loads_over_tls_and_answers_alike(tmp_path: Path) -> None:
    model, weights = models.external_model()
    source = tmp_path / "source"
    source.mkdir()
    (source / "det.onnx").write_bytes(model)
    (source / models.EXTERNAL_FILE).write_bytes(weights)
    feed = models.sample_input()
    served = Served.make(tmp_path)
    with served.daemon:
        with served.client(OPERATOR) as client:
            client.catalogue.import_(publish.plan(source / "det.onnx", name="ocr"))
        with served.client(OCR) as client:
            session = load(client, "ocr", session_options=eps.quiet_options())
    (got,) = session.run(None, feed)
    flows.assert_equal_answers(got, flows.on_cpu(models.whole_model(), feed))
