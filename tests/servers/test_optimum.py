"""The example of Optimum, with a small classifier of text that knows nothing."""

from __future__ import annotations

import json
import subprocess
import sys
from typing import TYPE_CHECKING, Final

import numpy as np
from onnx import TensorProto, helper, numpy_helper
from support.inference_servers import ROOT, assert_no_events, needs, server_environment

from sealcar import publish

if TYPE_CHECKING:
    from pathlib import Path

    from support.inference_servers import Served

LIBRARIES: Final = ROOT / ".servers" / "optimum"
PACKAGE: Final = "moods"
WORDS: Final = 500
WIDTH: Final = 64
KINDS: Final = 3
# the sealed model and Optimum's own way, from a folder that has the model too
PROGRAM: Final = """
import json, sys
import optimum_model, sealcar, torch
from optimum.onnxruntime import ORTModelForSequenceClassification

package, settings, plain = sys.argv[1:]
with sealcar.connect() as client:
    sealed = optimum_model.load(client, package, settings)
words = torch.tensor([[4, 8, 15]])
seen = torch.ones_like(words)
usual = ORTModelForSequenceClassification.from_pretrained(plain)
print(json.dumps([model(words, seen).logits.tolist() for model in (sealed, usual)]))
"""


def classifier() -> bytes:
    """Return a model with BERT's inputs: words, their mean, and how much it is like each kind."""
    rng = np.random.default_rng(0)
    shapes = {"words": (WORDS, WIDTH), "kinds": (WIDTH, KINDS)}
    tensors = [
        numpy_helper.from_array(rng.standard_normal(shape, np.float32), name)
        for name, shape in shapes.items()
    ]
    node = helper.make_node
    nodes = [
        node("Gather", ["words", "input_ids"], ["vectors"]),
        node("ReduceMean", ["vectors"], ["mean"], axes=[1], keepdims=0),
        node("MatMul", ["mean", "kinds"], ["like"]),
        node("Cast", ["attention_mask"], ["seen"], to=TensorProto.FLOAT),
        node("ReduceMax", ["seen"], ["any"], axes=[1], keepdims=1),
        node("Mul", ["like", "any"], ["logits"]),
    ]
    value = helper.make_tensor_value_info
    names = ("input_ids", "attention_mask")
    inputs = [value(name, TensorProto.INT64, ["batch", "length"]) for name in names]
    outputs = [value("logits", TensorProto.FLOAT, ["batch", KINDS])]
    graph = helper.make_graph(nodes, "moods", inputs, outputs, tensors)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=10)
    made: bytes = model.SerializeToString()
    return made


def test_an_ortmodel_of_optimum_answers_as_from_files(served: Served, tmp_path: Path) -> None:
    needs("optimum", libraries=LIBRARIES, target="optimum")
    plain, settings = tmp_path / "plain", tmp_path / "settings"
    for folder in (plain, settings):
        folder.mkdir()
        labels = {str(each): f"mood {each}" for each in range(KINDS)}
        config = {"model_type": "bert", "id2label": labels, "vocab_size": WORDS}
        folder.joinpath("config.json").write_text(json.dumps(config))
    model = plain / "model.onnx"
    model.write_bytes(classifier())
    with served.daemon.connect() as client:
        client.catalogue.import_(publish.plan(model, name=PACKAGE))
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, PACKAGE, str(settings), str(plain)],
        env=server_environment(served, LIBRARIES),
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert_no_events(served)
    sealed, usual = json.loads(done.stdout.splitlines()[-1])
    np.testing.assert_allclose(sealed, usual, rtol=1e-5)
    assert np.ptp(sealed) > 1e-3
