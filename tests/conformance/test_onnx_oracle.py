"""The scanner against the `onnx` package: it finds what that finds, and nothing else."""

from __future__ import annotations

import hashlib
from collections import Counter
from typing import TYPE_CHECKING, Any, cast

import numpy as np
import onnx
import onnxruntime
import pytest
from google.protobuf.message import DecodeError, Message
from hypothesis import given, settings
from hypothesis import strategies as st
from onnx import AttributeProto, NodeProto, SparseTensorProto, StringStringEntryProto, TensorProto
from onnx.external_data_helper import load_external_data_for_model
from support.onnx_models import inline, model, raw, real_models

from sealcar import onnxscan
from sealcar.errors import InvalidPackageError

if TYPE_CHECKING:
    import random
    from collections.abc import Iterator
    from pathlib import Path

    from google.protobuf.descriptor import FieldDescriptor

REAL = real_models()
TEXTS = ("", "a", "W", "model.data", "Größe", "x" * 300)


def walk(message: Message) -> Iterator[Message]:
    """Every message inside a message, by reflection: the oracle needn't know where to look."""
    yield message
    for field, value in message.ListFields():
        if field.message_type is not None:
            for part in value if field.is_repeated else [value]:
                yield from walk(part)


def tensors_of(proto: Message) -> Counter[Any]:
    return Counter(
        (
            tensor.name,
            tensor.data_type & 0xFFFF_FFFF,
            tuple(tensor.dims),
            tuple(sorted((entry.key, entry.value) for entry in tensor.external_data)),
            tensor.raw_data,
        )
        for tensor in walk(proto)
        if isinstance(tensor, TensorProto)
    )


def scanned_tensors(data: bytes, found: onnxscan.ModelScan) -> Counter[Any]:
    return Counter(
        (
            tensor.name,
            tensor.data_type,
            tensor.dims,
            entries_of(tensor.external),
            data[slice(*tensor.inline)] if tensor.inline else b"",
        )
        for tensor in found.tensors
    )


def entries_of(external: onnxscan.External | None) -> tuple[tuple[str, str], ...]:
    if external is None:
        return ()
    entries = {"location": external.location, "offset": str(external.offset), **external.others}
    if external.length is not None:
        entries["length"] = str(external.length)
    return tuple(sorted(entries.items()))


def contexts_of(proto: Message) -> Counter[Any]:
    found: Counter[Any] = Counter()
    for node in walk(proto):
        if isinstance(node, NodeProto) and node.op_type == "EPContext":
            values = {a.name: (a.i, a.s) for a in node.attribute}
            embed = values.get("embed_mode", (None, b""))[0]
            name = values.get("ep_cache_context", (0, b""))[1]
            main = values.get("main_context", (1, b""))[0]
            source = values.get("source", (0, b""))[1].decode()
            found[node.name, source, bool(main), embed, name if embed == 0 else b""] += 1
    return found


def scanned_contexts(found: onnxscan.ModelScan) -> Counter[Any]:
    return Counter(
        (node.name, node.source, node.main_context, node.embed_mode, node.cache_context or b"")
        for node in found.ep_contexts
    )


def agree(data: bytes, proto: onnx.ModelProto) -> None:
    found = onnxscan.scan(data)
    assert scanned_tensors(data, found) == tensors_of(proto)
    assert scanned_contexts(found) == contexts_of(proto)
    assert found.metadata == {entry.key: entry.value for entry in proto.metadata_props}
    assert found.node_count == sum(isinstance(part, NodeProto) for part in walk(proto))


class Filler:
    """Fills messages by reflection, so that tensors turn up wherever the schema lets them."""

    def __init__(self, source: random.Random) -> None:
        self.random = source

    def fill(self, message: Message, depth: int) -> None:
        if isinstance(message, TensorProto):
            self.tensor(message)
            return
        for field in cast("list[FieldDescriptor]", message.DESCRIPTOR.fields):
            if depth > 7 and field.message_type is not None:
                continue
            if field.name == "metadata_props":
                for key in self.random.sample(TEXTS, self.random.randrange(3)):
                    getattr(message, field.name).add(key=key, value=self.random.choice(TEXTS))
            elif self.random.random() < 0.5:
                self.field(message, field, depth)
        if isinstance(message, NodeProto):
            self.node(message)

    def field(self, message: Message, field: FieldDescriptor, depth: int) -> None:
        value = getattr(message, field.name)
        if field.is_repeated:
            for _ in range(self.random.randrange(3)):
                if field.message_type is None:
                    value.append(self.scalar(field))
                else:
                    self.fill(value.add(), depth + 1)
        elif field.message_type is None:
            setattr(message, field.name, self.scalar(field))
        else:
            value.SetInParent()
            self.fill(value, depth + 1)

    def scalar(self, field: FieldDescriptor) -> str | bytes | float:
        if field.enum_type is not None:
            return self.random.choice(field.enum_type.values).number
        if field.cpp_type == field.CPPTYPE_STRING:
            text = self.random.choice(TEXTS)
            return text.encode() if field.type == field.TYPE_BYTES else text
        if field.cpp_type in (field.CPPTYPE_FLOAT, field.CPPTYPE_DOUBLE):
            return self.random.random()
        return self.random.choice((0, 1, 127, 128, 2**31 - 1))

    def tensor(self, tensor: TensorProto) -> None:
        tensor.name = self.random.choice(TEXTS)
        tensor.data_type = self.random.randrange(30)
        tensor.dims.extend(self.random.choices((0, 1, 200, 2**62), k=self.random.randrange(4)))
        tensor.doc_string = "d"
        if self.random.random() < 0.5:
            tensor.raw_data = self.random.randbytes(self.random.randrange(300))
            tensor.int64_data.extend([1, -1])
            return
        tensor.data_location = TensorProto.EXTERNAL
        tensor.external_data.add(key="offset", value=str(self.random.randrange(2**63)))
        for key in self.random.sample(("length", "checksum", "other"), self.random.randrange(4)):
            tensor.external_data.add(key=key, value="12")
        tensor.external_data.add(key="location", value=self.random.choice(TEXTS))

    def node(self, node: NodeProto) -> None:
        if self.random.random() < 0.5:
            return
        node.op_type = "EPContext"
        for index, attribute in enumerate(node.attribute):
            attribute.name = f"a{index}"
        for key in self.random.sample(("embed_mode", "main_context"), self.random.randrange(3)):
            node.attribute.add(name=key, type=AttributeProto.INT, i=self.random.randrange(2))
        for key in self.random.sample(("ep_cache_context", "source"), self.random.randrange(3)):
            node.attribute.add(name=key, type=AttributeProto.STRING, s=b"name")


@given(st.randoms(use_true_random=False))
@settings(max_examples=300, deadline=None)
def test_the_scanner_finds_what_onnx_finds_wherever_it_hides(source: random.Random) -> None:
    proto = onnx.ModelProto()
    Filler(source).fill(proto, 0)
    proto.graph.SetInParent()
    agree(raw(proto), proto)


@given(st.randoms(use_true_random=False))
@settings(max_examples=500, deadline=None)
def test_of_a_damaged_model_the_scanner_never_says_anything_else_than_onnx(
    source: random.Random,
) -> None:
    proto = onnx.ModelProto()
    Filler(source).fill(proto, 3)
    proto.graph.SetInParent()
    data = bytearray(raw(proto))
    for _ in range(source.randrange(1, 4)):
        at = source.randrange(len(data) + 1)
        data[at : at + source.randrange(3)] = source.randbytes(source.randrange(3))
    damaged = bytes(data)
    try:
        found = onnxscan.scan(damaged)
    except InvalidPackageError:
        return
    try:
        proto = onnx.ModelProto.FromString(damaged)
        tensors = tensors_of(proto)
    except (DecodeError, UnicodeDecodeError):
        return
    canonical = {entry for entry in scanned_tensors(damaged, found) if entry[3]}
    # an offset may be written in more than one way, and unset means 0: compared by value
    assert {normal(entry) for entry in canonical} == {normal(e) for e in tensors if e[3]}
    assert found.node_count == sum(isinstance(part, NodeProto) for part in walk(proto))


def normal(entry: tuple[Any, ...]) -> tuple[Any, ...]:
    values = {"offset": "0", **dict(entry[3])}
    numbers = {key: int(values[key]) for key in ("offset", "length") if key in values}
    return (*entry[:3], tuple(sorted((values | numbers).items(), key=str)))


@pytest.mark.parametrize("path", REAL, ids=lambda path: path.name)
def test_the_scanner_reads_real_models_as_onnx_does(path: Path) -> None:
    data = path.read_bytes()
    agree(data, onnx.ModelProto.FromString(data))


def test_there_are_real_models() -> None:
    assert len(REAL) >= 5


def parts_in(directory: Path, data: bytes, threshold: int = 65536) -> Path:
    parts = onnxscan.externalise(data, location="w.data", threshold=threshold)
    joined, moved = b"".join(parts.model), b"".join(parts.data)
    assert (len(joined), len(moved)) == (parts.model_size, parts.data_size)
    (directory / "w.data").write_bytes(moved)
    target = directory / "m.onnx"
    target.write_bytes(joined)
    return target


def back_inline(path: Path, digest: str) -> bytes:
    """The model with its external data brought back, and without the note that it was moved."""
    proto = onnx.load(path, load_external_data=False)
    moved = any(tensor.external_data for tensor in proto.graph.initializer)
    load_external_data_for_model(proto, str(path.parent))
    for tensor in proto.graph.initializer:
        tensor.ClearField("data_location")
        tensor.ClearField("external_data")
    if moved:
        note = proto.metadata_props.pop()
        assert (note.key, note.value) == (onnxscan.SOURCE_DIGEST, digest)
    return canonical(proto)


def canonical(proto: onnx.ModelProto) -> bytes:
    for tensor in proto.graph.initializer:
        # its default may be written or not
        if tensor.data_location == TensorProto.DEFAULT:
            tensor.ClearField("data_location")
    data = proto.SerializeToString(deterministic=True)
    assert isinstance(data, bytes)
    return data


@pytest.mark.parametrize("path", REAL, ids=lambda path: path.name)
def test_a_model_split_in_two_is_the_same_model(path: Path, tmp_path: Path) -> None:
    data = path.read_bytes()
    split = back_inline(parts_in(tmp_path, data), hashlib.sha256(data).hexdigest())
    assert split == canonical(onnx.ModelProto.FromString(data))


@given(st.lists(st.integers(0, 40), max_size=8), st.integers(0, 100))
@settings(max_examples=60, deadline=None)
def test_any_mix_of_sizes_splits_into_the_same_model(sizes: list[int], threshold: int) -> None:
    proto = model(*(inline(f"W{i}", range(size)) for i, size in enumerate(sizes)))
    data = raw(proto)
    parts = onnxscan.externalise(data, location="w", threshold=threshold)
    split = onnx.ModelProto.FromString(b"".join(parts.model))
    moved = b"".join(parts.data)
    for before, after in zip(proto.graph.initializer, split.graph.initializer, strict=True):
        keys = {entry.key: entry.value for entry in after.external_data}
        if len(before.raw_data) < max(threshold, 1) and not keys:
            assert after == before
            continue
        start, size = int(keys["offset"]), int(keys["length"])
        assert start % 4096 == 0
        assert moved[start : start + size] == before.raw_data
        assert not after.HasField("raw_data")


@pytest.mark.parametrize("name", ["320n.onnx", "silero_vad_16k_op15.onnx", "model.onnx"])
def test_a_split_model_computes_the_same(name: str, tmp_path: Path) -> None:
    path = next((path for path in REAL if path.name == name), None)
    if path is None:
        pytest.skip(f"{name} is not installed")
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 3
    whole, split = (
        onnxruntime.InferenceSession(str(file), options, providers=["CPUExecutionProvider"])
        for file in (path, parts_in(tmp_path, path.read_bytes()))
    )
    feeds = {item.name: example(item) for item in whole.get_inputs()}
    for expected, found in zip(whole.run(None, feeds), split.run(None, feeds), strict=True):
        np.testing.assert_array_equal(expected, found)


def example(item: onnxruntime.NodeArg) -> np.ndarray[Any, Any]:
    dtype = {
        "tensor(float)": np.float32,
        "tensor(int32)": np.int32,
        "tensor(int64)": np.int64,
    }[item.type]
    # a picture of 320 x 320, or a moment of sound
    open_size = {2: 512, 4: 320}.get(len(item.shape), 1)
    sizes = [
        size if isinstance(size, int) else (open_size if axis else 1)
        for axis, size in enumerate(item.shape)
    ]
    if item.name == "sr":
        return np.asarray(16000, np.int64)
    return np.random.default_rng(7).integers(0, 2, sizes).astype(dtype)


def test_the_oracle_itself_sees_sparse_tensors_and_entries() -> None:
    sparse = SparseTensorProto(values=TensorProto(name="v"), indices=TensorProto(name="i"))
    proto = onnx.ModelProto()
    proto.graph.sparse_initializer.append(sparse)
    proto.metadata_props.append(StringStringEntryProto(key="k", value="v"))
    assert [key[0] for key in tensors_of(proto)] == ["v", "i"]
    agree(raw(proto), proto)
