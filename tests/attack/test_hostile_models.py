"""Models and packages made to leak files or memory, or to mean two things, are refused."""

from __future__ import annotations

import json
import os
import socket
from typing import TYPE_CHECKING

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from support.hostile_models import KEYS, LOCATIONS, PLACES, nested_graphs, subgraph
from support.onnx_models import ep_context, external, inline, located, model, raw

from sealcar import onnxscan, publish
from sealcar.errors import InvalidPackageError, SealcarError

if TYPE_CHECKING:
    import random
    from pathlib import Path

    import onnx

DATA = bytes(range(64))


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A publisher's directory, with a secret beside it."""
    (tmp_path / "secret").write_bytes(DATA)
    inner = tmp_path / "package"
    inner.mkdir()
    (inner / "w.bin").write_bytes(DATA)
    return inner


def planned(folder: Path, proto: onnx.ModelProto | bytes) -> publish.ImportPlan:
    target = folder / "m.onnx"
    target.write_bytes(proto if isinstance(proto, bytes) else raw(proto))
    return publish.plan(target, name="hostile")


def refused(folder: Path, proto: onnx.ModelProto | bytes) -> str:
    with pytest.raises(InvalidPackageError) as caught:
        planned(folder, proto)
    assert str(caught.value).isprintable()
    assert len(str(caught.value)) < 500
    return str(caught.value)


def test_an_honest_model_passes(folder: Path) -> None:
    with planned(folder, model(located("w.bin"))) as plan:
        assert [(item.name, item.kind) for item in plan.payloads] == [
            ("m.onnx", "model"),
            ("w.bin", "initializers"),
        ]


@pytest.mark.parametrize("location", LOCATIONS, ids=lambda text: ascii(text)[:40])
def test_a_location_that_is_no_plain_name_below_the_model_is_refused(
    folder: Path, location: str
) -> None:
    (folder / "sub").mkdir()
    message = refused(folder, model(located(location)))
    assert "'W'" in message or location == "m.onnx"


def link(folder: Path) -> str:
    (folder / "x").symlink_to("../secret")
    return "x"


def inner_link(folder: Path) -> str:
    (folder / "x").symlink_to("w.bin")
    return "x"


def dangling_link(folder: Path) -> str:
    (folder / "x").symlink_to("nowhere")
    return "x"


def parent_link(folder: Path) -> str:
    (folder / "d").symlink_to("..")
    return "d/secret"


def hard_link(folder: Path) -> str:
    (folder / "x").hardlink_to(folder.parent / "secret")
    return "x"


def fifo(folder: Path) -> str:
    os.mkfifo(folder / "x")
    return "x"


def unix_socket(folder: Path) -> str:
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(os.path.relpath(folder / "x"))
    return "x"


def device_link(folder: Path) -> str:
    (folder / "x").symlink_to("/dev/zero")
    return "x"


SPECIAL = [link, inner_link, dangling_link, parent_link, hard_link, fifo, unix_socket, device_link]


@pytest.mark.parametrize("make", SPECIAL)
def test_what_is_no_plain_file_is_refused_without_waiting(folder: Path, make: object) -> None:
    assert callable(make)
    name = make(folder)
    assert "'W'" in refused(folder, model(located(name)))


@pytest.mark.root
def test_a_device_node_is_refused_without_opening_it(folder: Path) -> None:
    try:
        os.mknod(folder / "x", 0o600 | 0o020000, os.makedev(1, 5))
    except PermissionError:
        pytest.skip("this container may not make device nodes")
    assert "not a regular file" in refused(folder, model(located("x")))


@pytest.mark.parametrize(
    "entries",
    KEYS,
)
def test_keys_that_are_unknown_missing_or_doubled_are_refused(
    folder: Path, entries: list[tuple[str, str]]
) -> None:
    assert "'W'" in refused(folder, model(external("W", 4, *entries)))


NUMBERS = ["-1", "49", str(2**63 - 1), str(2**63), str(2**64), "0x10", "1e3", " 8", "8 ", "+8", "٣"]


@pytest.mark.parametrize("offset", [*NUMBERS, "abc", ""])
def test_an_offset_beyond_the_file_or_no_number_is_refused(folder: Path, offset: str) -> None:
    assert "'W'" in refused(folder, model(located("w.bin", offset=offset)))


@pytest.mark.parametrize("length", ["0", "15", "17", str(2**62), str(2**63 - 1), "-1", "0x10"])
def test_a_length_that_does_not_fit_the_shape_is_refused(folder: Path, length: str) -> None:
    assert "'W'" in refused(folder, model(located("w.bin", length=length)))


def test_offset_and_length_that_overflow_together_are_refused(folder: Path) -> None:
    tensor = located("w.bin", offset=str(2**63 - 1), length=str(2**62))
    tensor.dims[0] = 2**60
    assert "beyond" in refused(folder, model(tensor))


def test_a_length_left_open_is_the_rest_of_the_file(folder: Path) -> None:
    with planned(folder, model(external("W", 16, ("location", "w.bin")))):
        pass
    refused(folder, model(external("W", 15, ("location", "w.bin"))))


def test_data_that_partly_overlaps_is_refused_but_shared_data_passes(folder: Path) -> None:
    whole, half = located("w.bin"), located("w.bin", offset="8")
    half.name = "V"
    assert "overlaps" in refused(folder, model(whole, half))
    half.external_data[1].value = "0"
    with planned(folder, model(whole, half)):
        pass


def test_a_wrong_checksum_is_ignored_because_sealing_is_what_protects(folder: Path) -> None:
    tensor = located("w.bin")
    tensor.external_data.add(key="checksum", value="0" * 40)
    with planned(folder, model(tensor)):
        pass


def test_a_sparse_file_is_not_read_to_be_planned(folder: Path) -> None:
    with (folder / "huge").open("wb") as stream:
        stream.truncate(1 << 40)
    tensor = located("huge", length=str(1 << 40))
    tensor.dims[0] = 1 << 38
    with planned(folder, model(tensor)) as plan:
        assert plan.payloads[1].size == 1 << 40


def test_a_hundred_thousand_tensors_in_one_file_are_planned_in_seconds(folder: Path) -> None:
    tensors = [located("w.bin", count=1, offset="0") for _ in range(100_000)]
    with planned(folder, model(*tensors)) as plan:
        assert len(plan.payloads) == 2


@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize("location", ["../secret", "*/_ORT_MEM_ADDR_/*"])
def test_a_reference_is_found_wherever_it_hides(folder: Path, place: object, location: str) -> None:
    assert callable(place)
    assert "'W'" in refused(folder, place(located(location)))


@pytest.mark.parametrize("place", PLACES[1:])
def test_only_initializers_may_refer_to_files_even_to_good_ones(
    folder: Path, place: object
) -> None:
    assert callable(place)
    message = refused(folder, place(located("w.bin")))
    assert "sparse" in message or "only initializers" in message


def test_data_both_here_and_elsewhere_is_refused(folder: Path) -> None:
    tensor = located("w.bin")
    tensor.raw_data = bytes(16)
    assert "both" in refused(folder, model(tensor))


def test_a_file_in_two_roles_is_refused(folder: Path) -> None:
    node = ep_context(embed_mode=0, ep_cache_context="w.bin", main_context=1)
    assert "used as" in refused(folder, model(located("w.bin"), nodes=[node]))


BLOB_NAMES = [
    *LOCATIONS[:11],
    *(".", "..", "a/b.bin", "w.bin\0x", "a b", "é.bin", "x" * 300, "missing.bin", ".hidden"),
]


@pytest.mark.parametrize("name", BLOB_NAMES, ids=lambda text: ascii(text)[:40])
def test_a_blob_name_that_is_no_plain_name_is_refused(folder: Path, name: str) -> None:
    (folder / "a").mkdir()
    (folder / "a" / "b.bin").write_bytes(b"x")
    refused(folder, model(nodes=[ep_context(embed_mode=0, ep_cache_context=name, main_context=1)]))


@pytest.mark.parametrize("make", [link, inner_link, hard_link, fifo])
def test_a_blob_that_is_no_plain_file_is_refused(folder: Path, make: object) -> None:
    assert callable(make)
    node = ep_context(embed_mode=0, ep_cache_context=make(folder), main_context=1)
    refused(folder, model(nodes=[node]))


def test_a_compiled_model_that_leaves_its_mode_open_is_refused(folder: Path) -> None:
    node = ep_context(ep_cache_context="w.bin", main_context=1)
    assert "embed_mode" in refused(folder, model(nodes=[node]))
    assert "must be 0 or 1" in refused(folder, model(nodes=[ep_context(embed_mode=2)]))


def test_a_compiled_model_without_a_main_part_is_refused(folder: Path) -> None:
    node = ep_context(embed_mode=0, main_context=0)
    assert "main_context" in refused(folder, model(nodes=[node]))


def test_a_compiled_model_that_names_a_further_file_is_refused(folder: Path) -> None:
    node = ep_context(embed_mode=1, ep_cache_context="x", onnx_model_filename="w.bin")
    assert "onnx_model_filename" in refused(folder, model(nodes=[node]))


def test_parts_of_one_blob_and_parts_without_one_pass(folder: Path) -> None:
    nodes = [
        ep_context("a", embed_mode=0, ep_cache_context="w.bin", main_context=1),
        ep_context("b", embed_mode=0, ep_cache_context="w.bin", main_context=1),
        ep_context("c", embed_mode=0, main_context=0),
    ]
    with planned(folder, model(nodes=nodes)) as plan:
        assert [(p.name, p.kind) for p in plan.payloads] == [("m.onnx", "model"), ("w.bin", "blob")]


def test_a_blob_inside_the_model_is_sealed_with_it(folder: Path) -> None:
    node = ep_context(embed_mode=1, ep_cache_context="../secret" * 9999, main_context=1)
    with planned(folder, model(nodes=[node])) as plan:
        assert [payload.kind for payload in plan.payloads] == ["model"]
        assert plan.payloads[0].size > 9 * 9999


def test_graphs_nested_without_end_are_refused(folder: Path) -> None:
    assert "nested" in refused(folder, nested_graphs(3000))


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"\0",
        b"\x3a",
        b"\x3a\x05ab",
        b"\x3a\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01",
        b"\x3a" + b"\xff" * 20,
        b"\x3a\x00\x3a\x00",
        b"\x3b\x3c",
        b"\x38\x01",
        b"\x3a\x02\x2a\xff",
        b"PK\x03\x04" * 99,
        b"#!/bin/sh\n",
        DATA * 99,
    ],
)
def test_bytes_that_are_no_model_are_refused(folder: Path, data: bytes) -> None:
    refused(folder, data)


def test_every_truncation_of_a_model_is_refused_or_is_a_smaller_model() -> None:
    data = raw(model(located("w.bin"), nodes=[ep_context(embed_mode=1)]))
    for size in range(len(data)):
        try:
            onnxscan.scan(data[:size])
        except InvalidPackageError:
            continue


def test_a_file_replaced_between_check_and_sending_is_not_what_is_sent(folder: Path) -> None:
    with planned(folder, model(located("w.bin"))) as plan:
        (folder / "new").symlink_to("../secret")
        (folder / "new").rename(folder / "w.bin")
        assert b"".join(plan.payloads[1].chunks()) == DATA


@pytest.mark.parametrize("which", [0, 1])
@pytest.mark.parametrize("change", [b"", b"longer" * 99])
def test_a_file_changed_between_check_and_sending_is_refused(
    folder: Path, which: int, change: bytes
) -> None:
    with planned(folder, model(located("w.bin"))) as plan:
        payload = plan.payloads[which]
        with (folder / payload.name).open("ab") as stream:
            stream.write(change or DATA)
            if not change:
                stream.truncate(payload.size + 1)
        with pytest.raises(InvalidPackageError, match="changed"):
            list(payload.chunks())


@given(st.randoms(use_true_random=False))
@settings(
    max_examples=300, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
def test_a_damaged_model_is_refused_or_planned_but_nothing_else_happens(
    folder: Path, source: random.Random
) -> None:
    blob = ep_context(embed_mode=0, ep_cache_context="w.bin", main_context=1)
    choice = source.choice([model(located("w.bin")), model(nodes=[blob]), subgraph(located("w"))])
    data = bytearray(raw(choice))
    for _ in range(source.randrange(1, 5)):
        at = source.randrange(len(data) + 1)
        data[at : at + source.randrange(4)] = source.randbytes(source.randrange(4))
    try:
        plan = planned(folder, bytes(data))
    except InvalidPackageError:
        return
    with plan:
        assert {item.name for item in plan.payloads} <= {"m.onnx", "w.bin"}


def write_package(root: Path, **variant: object) -> Path:
    body = {"executor_info": {"ort": {"model_file": "m.onnx"}}} | variant
    manifest = {"schema_version": "1.0", "components": {"c": {"variants": {"v": body}}}}
    (root / "manifest.json").write_text(json.dumps(manifest))
    (root / "v").mkdir(exist_ok=True)
    (root / "v" / "m.onnx").write_bytes(raw(model(inline("W", [1, 2]))))
    return root


def refuse_package(root: Path) -> str:
    with pytest.raises(InvalidPackageError) as caught:
        publish.plan(root)
    return str(caught.value)


@pytest.mark.parametrize("make", [link, inner_link, dangling_link, hard_link, fifo, unix_socket])
def test_a_package_with_anything_but_plain_files_is_refused(tmp_path: Path, make: object) -> None:
    (tmp_path / "secret").write_bytes(DATA)
    root = tmp_path / "package"
    root.mkdir()
    write_package(root)
    (root / "v" / "w.bin").write_bytes(DATA)
    (root / "secret").write_bytes(DATA)
    assert callable(make)
    make(root / "v")
    assert "c/v" in refuse_package(root)


def test_a_package_whose_component_file_is_a_link_is_refused(tmp_path: Path) -> None:
    outside = tmp_path / "outside.json"
    outside.write_text('{"variants": {"v": {}}}')
    root = tmp_path / "package"
    (root / "c" / "v").mkdir(parents=True)
    (root / "c" / "v" / "x").write_bytes(b"x")
    (root / "c" / "component.json").symlink_to(outside)
    manifest = {"schema_version": "1.0", "components": {"c": "c"}}
    (root / "manifest.json").write_text(json.dumps(manifest))
    assert "link" in refuse_package(root)


@pytest.mark.parametrize("twin", ["M.onnx", "m.ONNX"])
def test_a_package_with_case_twins_is_refused(tmp_path: Path, twin: str) -> None:
    root = write_package(tmp_path)
    (root / "v" / twin).write_bytes((root / "v" / "m.onnx").read_bytes())
    assert "differ only in case" in refuse_package(root)


@pytest.mark.parametrize("name", [".hidden", "a\\b", "a\nb", "e\u0301", "shared_assets"])
def test_a_package_with_a_forbidden_file_name_is_refused(tmp_path: Path, name: str) -> None:
    root = write_package(tmp_path)
    (root / "v" / name).write_bytes(b"x")
    assert "c/v" in refuse_package(root)


@pytest.mark.parametrize("name", ["../m.onnx", "/etc/passwd", "none", "", "sha256:" + "a" * 64, 1])
def test_a_package_whose_model_is_elsewhere_is_refused(tmp_path: Path, name: object) -> None:
    refuse_package(write_package(tmp_path, executor_info={"ort": {"model_file": name}}))


def test_a_package_that_is_sealed_already_is_refused(tmp_path: Path) -> None:
    info = {"sealcar": {"format": "1"}}
    assert "sealed already" in refuse_package(write_package(tmp_path, executor_info=info))


@pytest.mark.parametrize(
    "key", ["session.model_external_initializers_file_folder_path", "ep.context_file_path"]
)
@pytest.mark.parametrize(
    "value", ["/etc/x", "../x", "a/../../x", "x\0", f"sha256:{'0' * 64}/x", 5, ["x"]]
)
def test_a_package_that_has_files_looked_for_outside_of_it_is_refused(
    tmp_path: Path, key: str, value: object
) -> None:
    info = {"ort": {"model_file": "m.onnx", "session_options": {key: value}}}
    assert key in refuse_package(write_package(tmp_path, executor_info=info))


def test_nothing_but_our_own_errors_leaves_the_plan(tmp_path: Path) -> None:
    for source in (tmp_path / "none", tmp_path, tmp_path / ("x" * 300), tmp_path / "a\0b"):
        with pytest.raises(SealcarError):
            publish.plan(source, name="x")
