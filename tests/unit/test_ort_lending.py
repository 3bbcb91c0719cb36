"""Weights where they lie: far into their file, of any type, or not lent at all."""

from __future__ import annotations

import inspect
import mmap
from typing import TYPE_CHECKING, Final

import numpy as np
import pytest
from onnx import TensorProto, helper

from sealcar import onnxscan
from sealcar.ort import lending, load
from sealcar.transfer.descriptors import Exported

if TYPE_CHECKING:
    from pathlib import Path

FAR: Final = (4 << 30) + 4096
HALVES: Final = {TensorProto.INT4, TensorProto.UINT4}
FLOATS: Final = np.arange(16, dtype=np.float32)


def model(kind: int, elements: int, offset: int) -> bytes:
    """Return a model with one weight, which lies in a file so far from its begin."""
    weight = TensorProto(name="w", data_type=kind, dims=[elements])
    weight.data_location = TensorProto.EXTERNAL
    for key, text in (("location", "w"), ("offset", offset)):
        weight.external_data.add(key=key, value=str(text))
    values = [helper.make_tensor_value_info(name, kind, [elements]) for name in "xy"]
    nodes = [helper.make_node("Identity", ["w"], ["y"])]
    graph = helper.make_graph(nodes, "g", values[:1], values[1:], [weight])
    made = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=10)
    return bytes(made.SerializeToString())


@pytest.mark.parametrize("own", [True, False])
@pytest.mark.parametrize("offset", [FAR, (8 << 30) + 64])
def test_a_weight_beyond_4_gib_of_its_file_is_lent_from_there(
    tmp_path: Path, offset: int, *, own: bool
) -> None:
    # nothing but the last page takes room
    with (tmp_path / "w").open("w+b") as file:
        file.seek(offset)
        file.write(FLOATS.tobytes())
        file.flush()
        mapped = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
    view = memoryview(mapped)
    weights = onnxscan.scan(model(TensorProto.FLOAT, len(FLOATS), offset)).external
    lent = lending.lend(weights, {"./w": view}, own=own)
    with Exported(view) as whole:
        assert lent.values["w"].data_ptr() - whole.address == offset
    assert lent.values["w"].numpy().tolist() == FLOATS.tolist()


@pytest.mark.parametrize("kind", sorted(HALVES))
@pytest.mark.parametrize("elements", [16, 17])
def test_weights_of_half_a_byte_are_lent_with_no_more_memory_than_they_have(
    kind: int, elements: int
) -> None:
    data = memoryview(bytes(range(1, elements // 2 + elements % 2 + 1)))
    weights = onnxscan.scan(model(kind, elements, 0)).external
    lent = lending.lend(weights, {"./w": data}, own=True)
    (value,) = lent.values.values()
    with Exported(data) as whole:
        assert value.data_ptr() == whole.address
    assert (value.shape(), value.element_type()) == ([elements], kind)
    assert value.tensor_size_in_bytes() == len(data)
    assert lent.kept == [value]
    assert not lending.lend(weights, {"./w": data[:-1]}, own=True).values


@pytest.mark.parametrize("own", [True, False])
@pytest.mark.parametrize("kind", sorted(set(lending._TYPES) - HALVES))
def test_weights_of_every_type_that_fills_bytes_are_lent(kind: int, *, own: bool) -> None:
    weights = onnxscan.scan(model(kind, 4, 64)).external
    data = memoryview(bytes(64 + (weights[0].byte_size or 0)))
    lent = lending.lend(weights, {"./w": data}, own=own)
    (value,) = lent.values.values()
    with Exported(data) as whole:
        assert value.data_ptr() == whole.address + 64
    assert (value.shape(), value.element_type()) == ([4], kind)


@pytest.mark.parametrize("kind", [TensorProto.FLOAT4E2M1, TensorProto.STRING])
def test_types_that_the_runtime_may_not_know_are_not_lent(kind: int) -> None:
    weights = onnxscan.scan(model(kind, 16, 0)).external
    assert not lending.lend(weights, {"./w": memoryview(bytes(16))}, own=True).values


def test_weights_are_a_process_s_own_where_nothing_else_is_said() -> None:
    assert inspect.signature(load).parameters["initializers"].default == "private"
