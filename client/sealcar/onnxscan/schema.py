"""The fields of ONNX messages that matter here, by number, as onnx.proto has them."""

from __future__ import annotations

from typing import Final

from sealcar.onnxscan.wire import Kind

# ModelProto
MODEL_GRAPH: Final = 7
MODEL_METADATA: Final = 14
MODEL_TRAINING: Final = 20
MODEL_FUNCTIONS: Final = 25
MODEL: Final = {
    MODEL_GRAPH: Kind.BYTES,
    MODEL_METADATA: Kind.REPEATED,
    MODEL_TRAINING: Kind.REPEATED,
    MODEL_FUNCTIONS: Kind.REPEATED,
}

# TrainingInfoProto
TRAINING_INITIALIZATION: Final = 1
TRAINING_ALGORITHM: Final = 2
TRAINING: Final = {TRAINING_INITIALIZATION: Kind.BYTES, TRAINING_ALGORITHM: Kind.BYTES}

# FunctionProto
FUNCTION_NODES: Final = 7
FUNCTION_DEFAULTS: Final = 11
FUNCTION: Final = {FUNCTION_NODES: Kind.REPEATED, FUNCTION_DEFAULTS: Kind.REPEATED}

# GraphProto
GRAPH_NODES: Final = 1
GRAPH_INITIALIZERS: Final = 5
GRAPH_SPARSE: Final = 15
GRAPH: Final = {
    GRAPH_NODES: Kind.REPEATED,
    GRAPH_INITIALIZERS: Kind.REPEATED,
    GRAPH_SPARSE: Kind.REPEATED,
}

# NodeProto
NODE_NAME: Final = 3
NODE_OPERATOR: Final = 4
NODE_ATTRIBUTES: Final = 5
NODE: Final = {
    NODE_NAME: Kind.BYTES,
    NODE_OPERATOR: Kind.BYTES,
    NODE_ATTRIBUTES: Kind.REPEATED,
}

# AttributeProto
ATTRIBUTE_NAME: Final = 1
ATTRIBUTE_INT: Final = 3
ATTRIBUTE_STRING: Final = 4
ATTRIBUTE_TENSOR: Final = 5
ATTRIBUTE_GRAPH: Final = 6
ATTRIBUTE_TENSORS: Final = 10
ATTRIBUTE_GRAPHS: Final = 11
ATTRIBUTE_SPARSE: Final = 22
ATTRIBUTE_SPARSES: Final = 23
ATTRIBUTE: Final = {
    ATTRIBUTE_NAME: Kind.BYTES,
    ATTRIBUTE_INT: Kind.INT,
    ATTRIBUTE_STRING: Kind.BYTES,
    ATTRIBUTE_TENSOR: Kind.BYTES,
    ATTRIBUTE_GRAPH: Kind.BYTES,
    ATTRIBUTE_TENSORS: Kind.REPEATED,
    ATTRIBUTE_GRAPHS: Kind.REPEATED,
    ATTRIBUTE_SPARSE: Kind.BYTES,
    ATTRIBUTE_SPARSES: Kind.REPEATED,
}

# TensorProto
TENSOR_DIMS: Final = 1
TENSOR_TYPE: Final = 2
TENSOR_NAME: Final = 8
TENSOR_RAW: Final = 9
TENSOR_EXTERNAL: Final = 13
TENSOR_LOCATION: Final = 14
# float_data, int32_data, string_data, int64_data, double_data, uint64_data
TENSOR_TYPED: Final = (4, 5, 6, 7, 10, 11)
TENSOR: Final = {
    TENSOR_DIMS: Kind.INTS,
    TENSOR_TYPE: Kind.INT,
    TENSOR_NAME: Kind.BYTES,
    TENSOR_RAW: Kind.BYTES,
    TENSOR_EXTERNAL: Kind.REPEATED,
    TENSOR_LOCATION: Kind.INT,
    **dict.fromkeys(TENSOR_TYPED, Kind.SEEN),
}

# SparseTensorProto
SPARSE_VALUES: Final = 1
SPARSE_INDICES: Final = 2
SPARSE: Final = {SPARSE_VALUES: Kind.BYTES, SPARSE_INDICES: Kind.BYTES}

# StringStringEntryProto
ENTRY_KEY: Final = 1
ENTRY_VALUE: Final = 2
ENTRY: Final = {ENTRY_KEY: Kind.BYTES, ENTRY_VALUE: Kind.BYTES}
