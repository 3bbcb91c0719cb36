"""Models for tests of the runtime, made with the onnx package from fixed random numbers."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numpy.typing import NDArray

WIDTH: Final = 64
EXTERNAL_FILE: Final = "weights.bin"
TAIL: Final = "tail"
# no accelerator's plugin supports it, so it splits a graph into partitions
_SPLITTER: Final = {"op_type": "Scaler", "domain": "ai.onnx.ml", "offset": [0.0], "scale": [1.0]}


def split_model(width: int = WIDTH, *, parts: int = 3, seed: int = 0) -> bytes:
    """Return a model of which a plugin compiles `parts` partitions, named x -> y."""
    return _serialised(_chain(_weights(width, parts, seed), split=True))


def whole_model(width: int = WIDTH, *, parts: int = 3, seed: int = 0) -> bytes:
    """Return the same model without the splitting operators: one partition."""
    return _serialised(_chain(_weights(width, parts, seed), split=False))


def external_model(width: int = WIDTH, *, seed: int = 0) -> tuple[bytes, bytes]:
    """Return the splitting model with its weights outside, and the file EXTERNAL_FILE."""
    weights = _weights(width, 3, seed)
    model = _chain(weights, split=True)
    offset = 0
    for tensor, values in zip(model.graph.initializer, weights.values(), strict=True):
        tensor.ClearField("raw_data")
        tensor.data_location = TensorProto.EXTERNAL
        for key, value in (
            ("location", EXTERNAL_FILE),
            ("offset", str(offset)),
            ("length", str(values.nbytes)),
        ):
            tensor.external_data.add(key=key, value=value)
        offset += values.nbytes
    return _serialised(model), b"".join(values.tobytes() for values in weights.values())


def big_model(mebibytes: int, *, seed: int = 0) -> bytes:
    """Return a splitting model with about this many MiB of weights."""
    width = int((mebibytes * 2**20 / 4 / 2) ** 0.5) // 64 * 64
    return split_model(width, parts=2, seed=seed)


def tail_model(width: int = WIDTH, *, seed: int = 0) -> bytes:
    """Return a model whose end stays on the CPU, with an initializer of its own named TAIL."""
    model = _chain(_weights(width, 2, seed), split=True)
    graph = model.graph
    graph.node[-1].output[0] = "before"
    graph.value_info.append(_value("before", width))
    graph.node.append(helper.make_node(inputs=["before"], outputs=["gap"], **_SPLITTER))
    graph.value_info.append(_value("gap", width))
    classes = np.arange(width, dtype=np.float32).reshape(1, width)
    graph.initializer.append(numpy_helper.from_array(classes, TAIL))
    # no plugin knows an operator of the classic machine learning domain
    graph.node.append(
        helper.make_node(
            "FeatureVectorizer",
            ["gap", TAIL],
            ["both"],
            domain="ai.onnx.ml",
            inputdimensions=[width, width],
        )
    )
    del graph.output[:]
    graph.output.append(helper.make_tensor_value_info("both", TensorProto.FLOAT, [1, 2 * width]))
    return _serialised(model)


def sample_input(width: int = WIDTH, *, seed: int = 1) -> dict[str, NDArray[np.float32]]:
    """Return a feed for the models above."""
    rng = np.random.default_rng(seed)
    return {"x": rng.standard_normal((1, width)).astype(np.float32)}


def blob_names(compiled: bytes) -> set[str]:
    """Return the names of blobs that a compiled model expects outside itself."""
    return {
        attributes["ep_cache_context"].s.decode()
        for attributes in _contexts(compiled)
        if not attributes["embed_mode"].i and "ep_cache_context" in attributes
    }


def context_count(compiled: bytes) -> int:
    """Return how many EPContext nodes a compiled model has."""
    return len(_contexts(compiled))


def _serialised(model: onnx.ModelProto) -> bytes:
    data: bytes = model.SerializeToString()
    return data


def _contexts(compiled: bytes) -> list[dict[str, Any]]:
    graph = onnx.load_from_string(compiled).graph
    return [
        {attribute.name: attribute for attribute in node.attribute}
        for node in graph.node
        if node.op_type == "EPContext"
    ]


def _weights(width: int, parts: int, seed: int) -> dict[str, NDArray[np.float32]]:
    rng = np.random.default_rng(seed)
    scale = width**0.5
    return {
        f"w{i}": (rng.standard_normal((width, width)) / scale).astype(np.float32)
        for i in range(parts)
    }


def _chain(weights: Mapping[str, NDArray[np.float32]], *, split: bool) -> onnx.ModelProto:
    width = next(iter(weights.values())).shape[0]
    nodes, inner, last = [], [], "x"
    for i, name in enumerate(weights):
        end = i == len(weights) - 1
        nodes.append(helper.make_node("MatMul", [last, name], [f"m{i}"]))
        last = "y" if end else f"r{i}"
        nodes.append(helper.make_node("Relu", [f"m{i}"], [last]))
        if split and not end:
            nodes.append(helper.make_node(inputs=[last], outputs=[f"s{i}"], **_SPLITTER))
            last = f"s{i}"
            inner.append(_value(last, width))
    graph = helper.make_graph(
        nodes,
        "sample",
        [_value("x", width)],
        [_value("y", width)],
        [numpy_helper.from_array(values, name) for name, values in weights.items()],
        value_info=inner,
    )
    opsets = [helper.make_opsetid("", 17), helper.make_opsetid("ai.onnx.ml", 3)]
    return helper.make_model(graph, opset_imports=opsets, ir_version=10)


def _value(name: str, width: int) -> onnx.ValueInfoProto:
    return helper.make_tensor_value_info(name, TensorProto.FLOAT, [1, width])
