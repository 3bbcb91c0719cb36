"""Models made to leak files or memory, in every way that was ever published or tried."""

from __future__ import annotations

import onnx
from onnx import SparseTensorProto, TensorProto, helper
from support.onnx_models import model

# where external data, and blobs, are said to be
LOCATIONS = [
    "../secret",
    "a/../../secret",
    "a/../w.bin",
    "./w.bin",
    "..\\secret",
    "C:\\secret",
    "\\\\host\\secret",
    "file:///etc/passwd",
    "/etc/passwd",
    "/proc/self/environ",
    "",
    ".",
    "..",
    "w.bin/",
    "w.bin/x",
    "sub",
    "w.bin\0../secret",
    "w.bin\n",
    "W.BIN",
    "w.bin ",
    "x" * 300,
    "x/" * 2500 + "x",
    "é.bin",
    "missing.bin",
    "*/_ORT_MEM_ADDR_/*",
    "*/_ORT_NATIVE_ENDIAN_MEM_ADDR_/*",
    ".hidden",
    "manifest.json",
    "m.onnx",
]

# entries of external_data
KEYS = [
    [("location", "w.bin"), ("location", "../secret")],
    [("location", "../secret"), ("location", "w.bin")],
    [("location", "w.bin"), ("offset", "0"), ("offset", "8"), ("length", "16")],
    [("location", "w.bin"), ("length", "16"), ("length", "16")],
    [("location", "w.bin"), ("length", "16"), ("basepath", "/etc")],
    [("location", "w.bin"), ("length", "16"), ("__class__", "x")],
    [("location", "w.bin"), ("length", "16"), ("", "x")],
    [("offset", "0"), ("length", "16")],
    [],
]


def subgraph(tensor: TensorProto) -> onnx.ModelProto:
    graph = helper.make_graph([], "inner", [], [], [tensor])
    loop = helper.make_node("If", ["X"], ["Z"], then_branch=graph, else_branch=graph)
    return model(nodes=[loop])


def constant(tensor: TensorProto) -> onnx.ModelProto:
    return model(nodes=[helper.make_node("Constant", [], ["Z"], value=tensor)])


def function(tensor: TensorProto) -> onnx.ModelProto:
    node = helper.make_node("Constant", [], ["Z"], value=tensor)
    made = helper.make_function("d", "F", [], ["Z"], [node], [helper.make_opsetid("", 17)])
    return model(functions=[made])


def function_default(tensor: TensorProto) -> onnx.ModelProto:
    made = helper.make_function("d", "F", [], [], [], [])
    made.attribute_proto.append(helper.make_attribute("t", tensor))
    return model(functions=[made])


def sparse_values(tensor: TensorProto) -> onnx.ModelProto:
    return model(sparse=[SparseTensorProto(values=tensor, dims=[4])])


def sparse_indices(tensor: TensorProto) -> onnx.ModelProto:
    return model(sparse=[SparseTensorProto(indices=tensor, dims=[4])])


def sparse_attribute(tensor: TensorProto) -> onnx.ModelProto:
    node = onnx.NodeProto(op_type="Constant", output=["Z"])
    attribute = node.attribute.add(name="sparse_value", type=onnx.AttributeProto.SPARSE_TENSOR)
    attribute.sparse_tensor.indices.CopyFrom(tensor)
    return model(nodes=[node])


def tensor_list(tensor: TensorProto) -> onnx.ModelProto:
    node = onnx.NodeProto(op_type="Any", output=["Z"])
    node.attribute.add(name="t", type=onnx.AttributeProto.TENSORS).tensors.append(tensor)
    return model(nodes=[node])


def training(tensor: TensorProto) -> onnx.ModelProto:
    proto = model()
    proto.training_info.add().algorithm.initializer.append(tensor)
    return proto


PLACES = [
    subgraph,
    constant,
    function,
    function_default,
    sparse_values,
    sparse_indices,
    sparse_attribute,
    tensor_list,
    training,
]


def nested_graphs(depth: int) -> bytes:
    """Return a model whose graphs stand in each other."""
    graph = b""
    for _ in range(depth):
        graph = _field(1, _field(5, _field(6, graph)))
    return _field(7, graph)


def many_nodes(count: int) -> bytes:
    """Return a model with so many empty nodes, each two bytes."""
    return _field(7, b"\x0a\x00" * count)


def many_tensors(tensor: TensorProto, count: int) -> bytes:
    """Return a model with the same initializer so many times."""
    return _field(7, _field(5, tensor.SerializeToString()) * count)


def _field(number: int, content: bytes) -> bytes:
    return bytes([number << 3 | 2]) + _varint(len(content)) + content


def _varint(value: int) -> bytes:
    out = bytearray()
    while value > 127:
        out.append(value & 127 | 128)
        value >>= 7
    return bytes([*out, value])
