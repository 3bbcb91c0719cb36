"""Payloads whose size and offsets need more than 32 bits."""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING, Final

import numpy as np
import pytest
from onnx import TensorProto, helper
from support.daemon import Daemon
from support.grpcdoor import grpc_door, import_steps
from support.grpcdoor import scope as scope_message
from support.onnx_bytes import TINY

from sealcar.ort import load
from sealcar.v1 import payloads_pb2

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from sealcar.ort.loading import Initializers

MIB: Final = 1 << 20
SIZE: Final = (4 << 30) + 3 * MIB + 5
BLOCK: Final = hashlib.shake_256(b"block").digest(MIB - 8)


def blocks() -> Iterator[bytes]:
    """Yield the payload in pieces of a MiB that all differ."""
    for at in range(0, SIZE, MIB):
        yield (at.to_bytes(8, "big") + BLOCK)[: SIZE - at]


def test_a_payload_over_4_gib_is_the_same_whole_and_beyond_every_32_bit_offset(
    tmp_path: Path,
) -> None:
    with Daemon(tmp_path) as daemon, daemon.connect() as client:
        with grpc_door(daemon) as door:
            list(door.packages.Import(import_steps("large", {"model.onnx": b"m"})))
        with client.begin("large", "c", "w") as transaction:
            transaction.write("model.onnx", TINY, "model")
            with transaction.writer("weights", "initializers") as writer:
                for block in blocks():
                    writer.write(block)
                assert writer.finish().size == SIZE
            scope = transaction.commit()
        with scope.map("weights") as mapped:
            for at, block in zip(range(0, SIZE, MIB), blocks(), strict=True):
                assert mapped.view[at : at + MIB] == block
        with grpc_door(daemon) as door:
            for offset in ((2 << 30) - 5, (4 << 30) - 5, (4 << 30) + 2 * MIB, SIZE - 10):
                asked = payloads_pb2.ReadRequest(
                    scope=scope_message("large", variant="w"),
                    name="weights",
                    offset=offset,
                    length=10,
                )
                data = b"".join(step.data for step in door.payloads.Read(asked))
                expected = b"".join(
                    at.to_bytes(8, "big") + BLOCK
                    for at in (offset // MIB * MIB, (offset // MIB + 1) * MIB)
                )
                assert data == expected[offset % MIB : offset % MIB + 10]


def adding(offset: int) -> bytes:
    """Return a model that adds four numbers, which lie in a file so far from its begin."""
    weight = TensorProto(name="w", data_type=TensorProto.FLOAT, dims=[4])
    weight.data_location = TensorProto.EXTERNAL
    for key, text in (("location", "weights"), ("offset", str(offset)), ("length", "16")):
        weight.external_data.add(key=key, value=text)
    values = [helper.make_tensor_value_info(name, TensorProto.FLOAT, [4]) for name in "xy"]
    nodes = [helper.make_node("Add", ["x", "w"], ["y"])]
    graph = helper.make_graph(nodes, "g", values[:1], values[1:], [weight])
    made = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=10)
    return bytes(made.SerializeToString())


@pytest.mark.parametrize("initializers", ["private", "shared"])
def test_a_weight_beyond_4_gib_of_its_file_is_the_one_that_the_session_computes_with(
    tmp_path: Path, initializers: Initializers
) -> None:
    offset = (4 << 30) + 4096
    with (
        Daemon(tmp_path, settings={"transfer.memory_limit": "8GiB"}) as daemon,
        daemon.connect() as client,
    ):
        with grpc_door(daemon) as door:
            list(door.packages.Import(import_steps("large", {"model.onnx": b"m"})))
        with client.begin("large", "c", "w") as transaction:
            transaction.write("model.onnx", adding(offset), "model")
            with transaction.writer("weights", "initializers") as writer:
                for at in range(0, offset, MIB):
                    # what a cut offset would find is something else
                    writer.write(bytes([7]) * min(MIB, offset - at))
                writer.write(np.array([1, 2, 3, 4], np.float32).tobytes())
                writer.finish()
            transaction.commit(executor_info={"ort": {"model_file": "model.onnx"}})
        session = load(client, "large", component="c", variant="w", initializers=initializers)
        (found,) = session.run(None, {"x": np.zeros(4, np.float32)})
        assert found.tolist() == [1, 2, 3, 4]
