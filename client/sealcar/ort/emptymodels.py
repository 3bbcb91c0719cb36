"""Models that hold nothing, in ONNX's wire format: for finding out what a provider does."""

from __future__ import annotations

from typing import Final, TypeAlias

from sealcar.onnxscan.wire import encode_head, encode_varint

_FLOAT: Final = 1
_INT: Final = 2
_STRING: Final = 3
_IR_VERSION: Final = 10
_OPSET: Final = 17

# number of a field, and its value: messages are sequences of fields
Field: TypeAlias = tuple[int, "int | str | list[Field]"]


def nodeless_model() -> bytes:
    """Return a model that gives back its input: any provider's session can be made of it."""
    graph: Field = (7, [(2, "probe"), (11, _value("x")), (12, _value("x"))])
    return _encode([(1, _IR_VERSION), graph, (8, [(2, _OPSET)])])


def ordinary_model() -> bytes:
    """Return a model of one operator without weights, which most providers take."""
    return _model([(4, "Relu")])


def precompiled_model(ep: str, blob: str) -> bytes:
    """Return a model whose one node was compiled by a provider into a blob outside."""
    attributes: list[Field] = [
        (5, [(1, "embed_mode"), (3, 0), (20, _INT)]),
        (5, [(1, "main_context"), (3, 1), (20, _INT)]),
        (5, [(1, "ep_cache_context"), (4, blob), (20, _STRING)]),
        (5, [(1, "source"), (4, ep), (20, _STRING)]),
        (5, [(1, "partition_name"), (4, "probe"), (20, _STRING)]),
    ]
    return _model([(4, "EPContext"), *attributes, (7, "com.microsoft")])


def _model(operator: list[Field]) -> bytes:
    node: Field = (1, [(1, "x"), (2, "y"), (3, "probe"), *operator])
    graph: Field = (7, [node, (2, "probe"), (11, _value("x")), (12, _value("y"))])
    opsets: list[Field] = [(8, [(2, _OPSET)]), (8, [(1, "com.microsoft"), (2, 1)])]
    return _encode([(1, _IR_VERSION), graph, *opsets])


def _value(name: str) -> list[Field]:
    shape: list[Field] = [(1, [(1, 1)]), (1, [(1, 4)])]
    return [(1, name), (2, [(1, [(1, _FLOAT), (2, shape)])])]


def _encode(fields: list[Field]) -> bytes:
    out = b""
    for number, value in fields:
        if isinstance(value, int):
            out += encode_varint(number << 3) + encode_varint(value)
            continue
        data = value.encode() if isinstance(value, str) else _encode(value)
        out += encode_head(number, len(data)) + data
    return out
