"""A small language model of the form that onnxruntime-genai runs: made up, and it says nothing."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Final

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

if TYPE_CHECKING:
    from pathlib import Path

MODEL: Final = "model.onnx"
SETTINGS: Final = "genai_config.json"
_HEADS: Final = 8
_WORDS: Final = 1000
_MIB: Final = 1 << 20


def write(folder: Path, mebibytes: int) -> Path:
    """Write a model of about so many MiB, and its settings; return the model's path."""
    # most of them are in the two matrices of width times four widths
    width = max(64, int((mebibytes * _MIB / 4 / 10) ** 0.5) // 64 * 64)
    (folder / MODEL).write_bytes(_model(width))
    (folder / SETTINGS).write_text(json.dumps(_settings(width)))
    return folder / MODEL


def _weights(width: int) -> dict[str, tuple[int, int]]:
    square = (width, width)
    return {
        "words": (_WORDS, width),
        "to_keys": square,
        "to_values": square,
        "up": (width, 4 * width),
        "down": (4 * width, width),
        "to_words": (width, _WORDS),
    }


def _model(width: int) -> bytes:
    rng = np.random.default_rng(0)
    tensors = [
        numpy_helper.from_array(rng.standard_normal(shape, np.float32) / shape[0] ** 0.5, name)
        for name, shape in _weights(width).items()
    ]
    heads = np.array([0, 0, _HEADS, width // _HEADS], np.int64)
    tensors.append(numpy_helper.from_array(heads, "heads"))
    node = helper.make_node
    nodes = [node("Gather", ["words", "input_ids"], ["x"])]
    for kind in ("key", "value"):
        past, present = f"past_key_values.0.{kind}", f"present.0.{kind}"
        nodes += [
            node("MatMul", ["x", f"to_{kind}s"], [f"{kind}_flat"]),
            node("Reshape", [f"{kind}_flat", "heads"], [f"{kind}_split"]),
            node("Transpose", [f"{kind}_split"], [f"{kind}_new"], perm=[0, 2, 1, 3]),
            node("Concat", [past, f"{kind}_new"], [present], axis=2),
        ]
    nodes += [
        node("MatMul", ["x", "up"], ["wide"]),
        node("Relu", ["wide"], ["bent"]),
        node("MatMul", ["bent", "down"], ["narrow"]),
        node("Add", ["x", "narrow"], ["y"]),
        node("MatMul", ["y", "to_words"], ["logits"]),
    ]
    graph = helper.make_graph(nodes, "language", _inputs(width), _outputs(width), tensors)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=10)
    made: bytes = model.SerializeToString()
    return made


def _inputs(width: int) -> list[onnx.ValueInfoProto]:
    value = helper.make_tensor_value_info
    kept = ["batch", _HEADS, "past", width // _HEADS]
    return [
        value("input_ids", TensorProto.INT64, ["batch", "new"]),
        value("attention_mask", TensorProto.INT64, ["batch", "all"]),
        *(value(f"past_key_values.0.{kind}", TensorProto.FLOAT, kept) for kind in ("key", "value")),
    ]


def _outputs(width: int) -> list[onnx.ValueInfoProto]:
    value = helper.make_tensor_value_info
    kept = ["batch", _HEADS, "all", width // _HEADS]
    return [
        value("logits", TensorProto.FLOAT, ["batch", "new", _WORDS]),
        *(value(f"present.0.{kind}", TensorProto.FLOAT, kept) for kind in ("key", "value")),
    ]


def _settings(width: int) -> dict[str, object]:
    decoder = {
        "filename": MODEL,
        "head_size": width // _HEADS,
        "hidden_size": width,
        "inputs": {
            "input_ids": "input_ids",
            "attention_mask": "attention_mask",
            "past_key_names": "past_key_values.%d.key",
            "past_value_names": "past_key_values.%d.value",
        },
        "num_attention_heads": _HEADS,
        "num_hidden_layers": 1,
        "num_key_value_heads": _HEADS,
        "outputs": {
            "logits": "logits",
            "present_key_names": "present.%d.key",
            "present_value_names": "present.%d.value",
        },
        "session_options": {"provider_options": []},
    }
    ends = {"bos_token_id": 1, "eos_token_id": 2, "pad_token_id": 0}
    sizes = {"context_length": 64, "vocab_size": _WORDS}
    model = {**ends, **sizes, "decoder": decoder, "type": "llama"}
    return {"model": model, "search": {"do_sample": False, "max_length": 16}}
