"""What the tests of whole flows share: models that leave weights to the CPU, import, comparison."""

from __future__ import annotations

import secrets
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper
from support import eps

from sealcar import publish
from sealcar.ort import runtime

if TYPE_CHECKING:
    from pathlib import Path

    from numpy.typing import NDArray
    from support.daemon import Daemon

    from sealcar.client import Client

WEIGHTS: Final = "model.weights"
# half precision is what the simulator computes in
TOLERANCE: Final = 0.02


def fresh_seed() -> int:
    """Return a seed that no other run has: a search for plaintext must find only our own."""
    return secrets.randbits(62)


def leftover_model(width: int = 64, centres: int = 512, *, seed: int) -> onnx.ModelProto:
    """Return MatMul, distances to `centres` points, MatMul: no plugin computes distances.

    So a plugin compiles two parts, and the points, 4 * width * centres bytes, are left to the CPU.
    """
    rng = np.random.default_rng(seed)
    first = (rng.standard_normal((width, width)) / width**0.5).astype(np.float32)
    points = (rng.standard_normal((centres, width)) / width).astype(np.float32)
    last = (rng.standard_normal((centres, width)) / centres).astype(np.float32)
    nodes = [
        helper.make_node("MatMul", ["x", "first"], ["m"]),
        helper.make_node("Relu", ["m"], ["r"]),
        helper.make_node(
            "CDist", ["r", "points"], ["d"], domain="com.microsoft", metric="sqeuclidean"
        ),
        helper.make_node("MatMul", ["d", "last"], ["n"]),
        helper.make_node("Relu", ["n"], ["y"]),
    ]
    graph = helper.make_graph(
        nodes,
        "leftover",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [1, width])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, [1, width])],
        [
            numpy_helper.from_array(first, "first"),
            numpy_helper.from_array(points, "points"),
            numpy_helper.from_array(last, "last"),
        ],
        value_info=[
            helper.make_tensor_value_info("r", TensorProto.FLOAT, [1, width]),
            helper.make_tensor_value_info("d", TensorProto.FLOAT, [1, centres]),
        ],
    )
    opsets = [helper.make_opsetid("", 17), helper.make_opsetid("com.microsoft", 1)]
    return helper.make_model(graph, opset_imports=opsets, ir_version=10)


def moved_out(model: onnx.ModelProto) -> tuple[bytes, bytes]:
    """Return a model whose weights are in the file WEIGHTS, and that file."""
    moved = onnx.ModelProto()
    moved.CopyFrom(model)
    data = b""
    for tensor in moved.graph.initializer:
        for key, value in (
            ("location", WEIGHTS),
            ("offset", str(len(data))),
            ("length", str(len(tensor.raw_data))),
        ):
            tensor.external_data.add(key=key, value=value)
        data += tensor.raw_data + bytes(-len(tensor.raw_data) % 4096)
        tensor.ClearField("raw_data")
        tensor.data_location = TensorProto.EXTERNAL
    return moved.SerializeToString(), data


def publish_model(client: Client, folder: Path, name: str, **files: bytes) -> None:
    """Write `model` (and `weights`) to a publisher's folder, and import them as variant "onnx"."""
    folder.mkdir()
    (folder / "model.onnx").write_bytes(files["model"])
    if "weights" in files:
        (folder / WEIGHTS).write_bytes(files["weights"])
    client.catalogue.import_(publish.plan(folder / "model.onnx", name=name))


def on_cpu(model: bytes, feed: dict[str, NDArray[np.float32]]) -> Any:  # noqa: ANN401  (untyped runtime)
    """Return what the plain model answers."""
    plain = runtime.onnxruntime().InferenceSession(
        model, eps.quiet_options(), providers=["CPUExecutionProvider"]
    )
    return plain.run(None, feed)[0]


def assert_equal_answers(got: Any, want: Any) -> None:  # noqa: ANN401  (untyped runtime)
    """Assert that two answers agree within half precision, and aren't all the same number."""
    assert np.ptp(want) > TOLERANCE
    np.testing.assert_allclose(got, want, atol=TOLERANCE, rtol=TOLERANCE)


def decrypted(daemon: Daemon) -> float:
    """Return how many plaintext bytes a daemon has handed to clients."""
    return sum(
        value
        for (name, labels), value in daemon.metrics().items()
        if name == "sealcar_payload_bytes_total" and ("direction", "read") in labels
    )
