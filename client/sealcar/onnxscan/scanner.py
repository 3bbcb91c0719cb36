"""Walks a model and finds every tensor and every compiled part, wherever they stand."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from sealcar.errors import InvalidPackageError
from sealcar.onnxscan import schema
from sealcar.onnxscan.epcontext import OPERATOR, read_ep_context
from sealcar.onnxscan.tensors import entries, read_tensor
from sealcar.onnxscan.values import EpContextNode, ModelScan, Tensor
from sealcar.onnxscan.wire import Found, Span, WireReader

if TYPE_CHECKING:
    from typing_extensions import Buffer

# protobuf itself stops at 100 nested messages, and a graph in a graph takes three
MAX_DEPTH: Final = 32
# protobuf can't hold more
MAX_MODEL: Final = (1 << 31) - 1
_MAX_METADATA: Final = 1 << 24


def scan(data: Buffer) -> ModelScan:
    """Return what a serialised ModelProto holds; its tensor data is stepped over, never copied.

    Covers the graph, its subgraphs, functions, training, Constant nodes, and sparse tensors' values
    and indices.

    Raises:
        InvalidPackageError: no ONNX model, or a malformed or ambiguous one.
    """
    with memoryview(data) as given, given.cast("B") as view:
        if len(view) > MAX_MODEL:
            raise InvalidPackageError(f"the model has {len(view)} bytes, more than {MAX_MODEL}")
        return _Walk(WireReader(view)).model(Span(0, len(view)))


class _Walk:
    def __init__(self, reader: WireReader) -> None:
        self._reader = reader
        self._tensors: list[Tensor] = []
        self._contexts: list[EpContextNode] = []
        self._nodes = 0

    def model(self, span: Span) -> ModelScan:
        found = self._reader.read(span, schema.MODEL, "model")
        graph = found.span(schema.MODEL_GRAPH)
        if graph is None:
            raise InvalidPackageError("not an ONNX model: it has no graph")
        self._graph(graph, "graph", depth=0, run=True)
        for index, part in enumerate(found.spans(schema.MODEL_FUNCTIONS)):
            self._function(part, f"functions[{index}]")
        for index, part in enumerate(found.spans(schema.MODEL_TRAINING)):
            self._training(part, f"training_info[{index}]")
        pairs = entries(
            self._reader, found.spans(schema.MODEL_METADATA), "metadata_props", _MAX_METADATA
        )
        return ModelScan(tuple(self._tensors), tuple(self._contexts), dict(pairs), self._nodes)

    def _training(self, span: Span, path: str) -> None:
        found = self._reader.read(span, schema.TRAINING, path)
        for number in schema.TRAINING:
            part = found.span(number)
            if part is not None:
                self._graph(part, f"{path}.{number}", depth=1, run=False)

    def _function(self, span: Span, path: str) -> None:
        found = self._reader.read(span, schema.FUNCTION, path)
        for index, node in enumerate(found.spans(schema.FUNCTION_NODES)):
            self._node(node, f"{path}.node[{index}]", depth=1, run=False)
        for index, default in enumerate(found.spans(schema.FUNCTION_DEFAULTS)):
            self._attribute(default, f"{path}.attribute_proto[{index}]", depth=1, run=False)

    def _graph(self, span: Span, path: str, *, depth: int, run: bool) -> None:
        if depth > MAX_DEPTH:
            raise InvalidPackageError(f"graphs are nested over {MAX_DEPTH} deep")
        found = self._reader.read(span, schema.GRAPH, path)
        for index, part in enumerate(found.spans(schema.GRAPH_INITIALIZERS)):
            self._tensor(part, f"{path}.initializer[{index}]", initializer=run)
        for index, part in enumerate(found.spans(schema.GRAPH_SPARSE)):
            self._sparse(part, f"{path}.sparse_initializer[{index}]")
        for index, part in enumerate(found.spans(schema.GRAPH_NODES)):
            self._node(part, f"{path}.node[{index}]", depth=depth, run=run)

    def _node(self, span: Span, path: str, *, depth: int, run: bool) -> None:
        self._nodes += 1
        found = self._reader.read(span, schema.NODE, path)
        attributes = [
            self._attribute(part, f"{path}.attribute[{index}]", depth=depth, run=run)
            for index, part in enumerate(found.spans(schema.NODE_ATTRIBUTES))
        ]
        if found.equals(schema.NODE_OPERATOR, OPERATOR):
            name = found.text(schema.NODE_NAME)
            self._contexts.append(read_ep_context(name, path, attributes))

    def _attribute(self, span: Span, path: str, *, depth: int, run: bool) -> Found:
        found = self._reader.read(span, schema.ATTRIBUTE, path)
        for number in (schema.ATTRIBUTE_TENSOR, schema.ATTRIBUTE_TENSORS):
            for part in found.spans(number):
                self._tensor(part, path, initializer=False)
        for number in (schema.ATTRIBUTE_SPARSE, schema.ATTRIBUTE_SPARSES):
            for part in found.spans(number):
                self._sparse(part, path)
        for number in (schema.ATTRIBUTE_GRAPH, schema.ATTRIBUTE_GRAPHS):
            for part in found.spans(number):
                self._graph(part, f"{path}.graph", depth=depth + 1, run=run)
        return found

    def _sparse(self, span: Span, path: str) -> None:
        found = self._reader.read(span, schema.SPARSE, path)
        for number, half in ((schema.SPARSE_VALUES, "values"), (schema.SPARSE_INDICES, "indices")):
            part = found.span(number)
            if part is not None:
                self._tensor(part, f"{path}.{half}", initializer=False, sparse=True)

    def _tensor(self, span: Span, path: str, *, initializer: bool, sparse: bool = False) -> None:
        tensor = read_tensor(self._reader, span, path, initializer=initializer, sparse=sparse)
        self._tensors.append(tensor)
