"""Makes Magika's model fit for providers that compute in half precision.

Its layer norms add up 512 squares and divide the sum: in half precision, whose largest number is
65,504, the sum overflows for many real files. Dividing each term first is the same function and
stays in range. A provider can't know that the range matters, so whoever deploys does this; here it
happens between reading one sealed variant and writing another, in memory only.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import onnx

if TYPE_CHECKING:
    from sealcar import Scope
    from sealcar.client import Client

VARIANT: Final = "onnx-half"


def fit_for_half(client: Client, source: Scope) -> Scope:
    """Write the variant `onnx-half` beside the source variant."""
    with client.begin(source.package, source.component, VARIANT) as transaction:
        for payload in source.payloads:
            data = source.read(payload.name)
            fit = rewired(data) if payload.kind == "model" else data
            transaction.write(payload.name, fit, payload.kind)
        # the namespace "sealcar" is written by the daemon itself
        kept = {key: value for key, value in source.executor_info.items() if key != "sealcar"}
        return transaction.commit(executor_info=kept)


def batch_of(source: Scope) -> str:
    """Return the name of the dimension that counts files."""
    (name,) = (payload.name for payload in source.payloads if payload.kind == "model")
    model = onnx.load_from_string(source.read(name))
    return str(model.graph.input[0].type.tensor_type.shape.dim[0].dim_param)


def rewired(data: bytes) -> bytes:
    """Return a model in which every scaled sum is a sum of scaled terms."""
    model = onnx.load_from_string(data)
    graph = _Graph(model.graph)
    for node in list(model.graph.node):
        if found := graph.scaled_sum(node):
            graph.spread(node, *found)
    result: bytes = model.SerializeToString()
    return result


class _Graph:
    def __init__(self, graph: Any) -> None:  # noqa: ANN401  (untyped)
        self._graph = graph
        self._makers = {node.output[0]: node for node in graph.node}
        self._scalars = {each.name for each in graph.initializer if not each.dims}

    def scaled_sum(self, node: Any) -> tuple[Any, str] | None:  # noqa: ANN401  (untyped)
        """Return the sum that a node multiplies by a constant, and the constant's name."""
        if node.op_type != "Mul":
            return None
        for value, factor in (node.input, reversed(node.input)):
            maker = self._makers.get(value)
            if factor in self._scalars and maker is not None and maker.op_type == "ReduceSum":
                return maker, factor
        return None

    def spread(self, product: Any, total: Any, factor: str) -> None:  # noqa: ANN401  (untyped)
        """Multiply the terms instead of their sum; of squares, one of the two equal factors."""
        maker = self._makers.get(total.input[0])
        squared = maker is not None and maker.op_type == "Mul" and len(set(maker.input)) == 1
        user: Any = maker if squared else total
        scaled = f"{product.output[0]}/term"
        term = onnx.helper.make_node("Mul", [user.input[0], factor], [scaled])
        nodes = self._graph.node
        nodes.insert(list(nodes).index(user), term)
        user.input[0] = scaled
        total.output[0] = product.output[0]
        nodes.remove(product)
