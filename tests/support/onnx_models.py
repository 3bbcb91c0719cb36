"""Small ONNX models for tests, and the real ones that installed packages ship."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

if TYPE_CHECKING:
    from collections.abc import Sequence

PACKAGES = ("magika", "rapidocr", "nudenet", "silero_vad")


def real_models() -> list[Path]:
    """Found without importing the packages, which want more than is installed."""
    found: list[Path] = []
    for package in PACKAGES:
        spec = importlib.util.find_spec(package)
        if spec is not None and spec.origin is not None:
            found += Path(spec.origin).parent.rglob("*.onnx")
    return sorted(found, key=lambda path: path.name)


def inline(name: str, values: Sequence[float]) -> TensorProto:
    return numpy_helper.from_array(np.asarray(values, np.float32), name)


def external(name: str, count: int, *entries: tuple[str, str]) -> TensorProto:
    """A float tensor whose data is said to be elsewhere, with these keys in this order."""
    tensor = TensorProto(name=name, data_type=TensorProto.FLOAT, dims=[count])
    tensor.data_location = TensorProto.EXTERNAL
    for key, value in entries:
        tensor.external_data.add(key=key, value=value)
    return tensor


def located(location: str, *, count: int = 4, offset: str = "0", length: str = "") -> TensorProto:
    return external(
        "W", count, ("location", location), ("offset", offset), ("length", length or str(count * 4))
    )


def model(
    *initializers: TensorProto,
    nodes: Sequence[onnx.NodeProto] = (),
    sparse: Sequence[onnx.SparseTensorProto] = (),
    functions: Sequence[onnx.FunctionProto] = (),
) -> onnx.ModelProto:
    """Y = X + the first initializer, and whatever else is asked for."""
    size = initializers[0].dims[0] if initializers else 4
    first = initializers[0].name if initializers else "X"
    value = helper.make_tensor_value_info
    graph = helper.make_graph(
        [helper.make_node("Add", ["X", first], ["Y"]), *nodes],
        "g",
        [value("X", TensorProto.FLOAT, [size])],
        [value("Y", TensorProto.FLOAT, [size])],
        list(initializers),
        sparse_initializer=list(sparse),
    )
    return helper.make_model(
        graph,
        opset_imports=[helper.make_opsetid("", 17)],
        ir_version=10,
        functions=list(functions),
    )


def ep_context(name: str = "n", **attributes: str | int) -> onnx.NodeProto:
    return helper.make_node(
        "EPContext", ["X"], [f"Z{name}"], name, domain="com.microsoft", **attributes
    )


def raw(proto: onnx.ModelProto) -> bytes:
    data = proto.SerializeToString()
    assert isinstance(data, bytes)
    return data
