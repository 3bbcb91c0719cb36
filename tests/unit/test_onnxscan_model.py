"""What the scanner says about a model."""

from __future__ import annotations

import hashlib
import mmap
from typing import TYPE_CHECKING

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper
from support.onnx_models import ep_context, inline, located, model, raw

from sealcar import onnxscan
from sealcar.errors import InvalidPackageError

if TYPE_CHECKING:
    from pathlib import Path


def scan(proto: onnx.ModelProto) -> onnxscan.ModelScan:
    return onnxscan.scan(raw(proto))


def test_an_inline_tensor_is_told_by_where_its_bytes_lie() -> None:
    data = raw(model(inline("W", [1.0, 2.0])))
    (tensor,) = onnxscan.scan(data).tensors
    assert (tensor.name, tensor.data_type, tensor.dims) == ("W", TensorProto.FLOAT, (2,))
    assert tensor.initializer
    assert tensor.path == "graph.initializer[0]"
    assert tensor.inline is not None
    assert data[slice(*tensor.inline)] == np.asarray([1, 2], np.float32).tobytes()
    assert tensor.byte_size == 8


def test_an_external_tensor_is_told_by_its_reference() -> None:
    found = scan(model(inline("V", [1.0] * 4), located("w.bin", offset="64")))
    (tensor,) = found.external
    assert tensor.external == onnxscan.External("w.bin", 64, 16)
    assert tensor.inline is None


@pytest.mark.parametrize("data_type", sorted(set(TensorProto.DataType.values()) - {0, 8}))
def test_the_size_of_every_type_is_the_one_that_onnx_has(data_type: int) -> None:
    tensor = onnxscan.Tensor("t", data_type, (3, 5), "x")
    values = np.zeros((3, 5), helper.tensor_dtype_to_np_dtype(data_type))
    made = onnx.numpy_helper.from_array(values)
    assert made.data_type == data_type
    assert tensor.byte_size == len(made.raw_data)


@pytest.mark.parametrize("data_type", [0, 8, 99, -1])
def test_a_type_without_a_fixed_size_has_none(data_type: int) -> None:
    assert onnxscan.Tensor("t", data_type, (3,), "x").byte_size is None


def test_a_compiled_part_is_told_with_its_attributes() -> None:
    node = ep_context(
        "part",
        source="QNN",
        ep_sdk_version="2.3",
        partition_name="p0",
        embed_mode=0,
        main_context=1,
        ep_cache_context="m_qnn.bin",
    )
    (found,) = scan(model(nodes=[node])).ep_contexts
    assert (found.name, found.source, found.ep_sdk_version) == ("part", "QNN", "2.3")
    assert (found.partition_name, found.main_context, found.embed_mode) == ("p0", True, False)
    assert found.cache_context == b"m_qnn.bin"


def test_a_blob_in_the_model_is_told_by_its_place_only() -> None:
    data = raw(model(nodes=[ep_context(embed_mode=1, ep_cache_context="B" * 200_000)]))
    (found,) = onnxscan.scan(data).ep_contexts
    assert found.cache_context is None
    assert found.cache_span is not None
    assert data[slice(*found.cache_span)] == b"B" * 200_000


def test_a_compiled_part_is_found_under_any_domain_and_in_subgraphs() -> None:
    node = ep_context(embed_mode=1)
    node.domain = "elsewhere"
    graph = helper.make_graph([node], "inner", [], [])
    outer = helper.make_node("If", ["X"], ["Z"], then_branch=graph, else_branch=graph)
    found = scan(model(nodes=[outer]))
    assert [part.path for part in found.ep_contexts] == [
        "graph.node[1].attribute[0].graph.node[0]",
        "graph.node[1].attribute[1].graph.node[0]",
    ]
    assert found.node_count == 4


@pytest.mark.parametrize("key", ["embed_mode", "ep_cache_context"])
def test_an_attribute_that_occurs_twice_is_refused(key: str) -> None:
    node = ep_context(embed_mode=0, ep_cache_context="a")
    node.attribute.add(name=key)
    with pytest.raises(InvalidPackageError, match="occurs twice"):
        scan(model(nodes=[node]))


def test_metadata_is_told_and_refused_when_a_key_occurs_twice() -> None:
    proto = model()
    proto.metadata_props.add(key="k", value="v")
    assert scan(proto).metadata == {"k": "v"}
    proto.metadata_props.add(key="k", value="w")
    with pytest.raises(InvalidPackageError, match="occurs twice"):
        scan(proto)


@pytest.mark.parametrize("dims", [[-1], [0] * 1025])
def test_impossible_dimensions_are_refused(dims: list[int]) -> None:
    tensor = TensorProto(name="W", data_type=1, dims=dims)
    proto = model()
    proto.graph.initializer.append(tensor)
    with pytest.raises(InvalidPackageError, match="dimension"):
        scan(proto)


@pytest.mark.parametrize("text", ["stale", ""])
def test_a_reference_that_is_not_said_to_be_one_is_refused(text: str) -> None:
    tensor = located(text)
    tensor.data_location = TensorProto.DEFAULT
    with pytest.raises(InvalidPackageError, match="data_location"):
        scan(model(tensor))


def test_a_mapping_can_be_closed_after_the_scan(tmp_path: Path) -> None:
    path = tmp_path / "m.onnx"
    path.write_bytes(raw(model(inline("W", [1]))))
    with path.open("rb") as stream, mmap.mmap(stream.fileno(), 0, access=mmap.ACCESS_READ) as map_:
        assert len(onnxscan.scan(map_).tensors) == 1


def test_what_is_larger_than_protobuf_can_be_is_refused_unread() -> None:
    with mmap.mmap(-1, 1 << 31) as huge, pytest.raises(InvalidPackageError, match="more than"):
        onnxscan.scan(huge)


def test_moving_leaves_strings_and_small_tensors_where_they_are() -> None:
    proto = model(inline("W", range(20)), inline("V", range(2)))
    text = proto.graph.initializer.add(name="S", data_type=TensorProto.STRING, dims=[1])
    text.raw_data = b"not allowed, but seen" * 9
    parts = onnxscan.externalise(raw(proto), location="w", threshold=64)
    assert parts.moved == 1
    assert parts.data_size == 80
    split = onnx.ModelProto.FromString(b"".join(parts.model))
    assert [tensor.data_location for tensor in split.graph.initializer] == [1, 0, 0]


def test_a_model_with_nothing_to_move_stays_as_it_is() -> None:
    data = raw(model(inline("W", range(20))))
    parts = onnxscan.externalise(data, location="w")
    assert (parts.moved, parts.data, parts.data_size) == (0, (), 0)
    assert b"".join(parts.model) == data


def digests(parts: onnxscan.Externalised) -> list[tuple[str, str]]:
    split = onnx.ModelProto.FromString(b"".join(parts.model))
    return [(entry.key, entry.value) for entry in split.metadata_props]


def test_a_model_out_of_which_something_was_moved_tells_what_it_was_made_of() -> None:
    proto = model(inline("W", range(20)))
    proto.metadata_props.add(key="own", value="x")
    data = raw(proto)
    parts = onnxscan.externalise(data, location="w", threshold=64)
    entry = (onnxscan.SOURCE_DIGEST, hashlib.sha256(data).hexdigest())
    assert digests(parts) == [("own", "x"), entry]


def test_moving_from_a_model_that_was_rewritten_before_tells_the_newer_source_alone() -> None:
    proto = model(inline("W", range(20)))
    proto.metadata_props.add(key=onnxscan.SOURCE_DIGEST, value="0" * 64)
    data = raw(proto)
    parts = onnxscan.externalise(data, location="w", threshold=64)
    assert digests(parts) == [(onnxscan.SOURCE_DIGEST, hashlib.sha256(data).hexdigest())]
    kept = onnxscan.externalise(data, location="w")
    assert b"".join(kept.model) == data


def test_the_runtimes_own_format_is_told_by_its_identifier() -> None:
    assert onnxscan.is_ort_format(b"\x14\0\0\0ORTM\0")
    for other in (b"\x14\0\0\0ORT", b"\x14\0\0\0ORTT\0\0", b"ORTM", b""):
        assert not onnxscan.is_ort_format(other)


def test_what_may_be_of_that_format_and_an_onnx_model_as_well_is_refused() -> None:
    # a field of 5 bytes that parsers of ONNX step over, then a model
    both = b"\xfa\x01\x05xORTM" + raw(model())
    assert onnx.ModelProto.FromString(both).graph.name == "g"
    with pytest.raises(InvalidPackageError, match="could be taken"):
        onnxscan.is_ort_format(both)
