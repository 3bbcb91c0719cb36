"""Files that a plain package's model names: what leads inside is loaded, the rest never read.

How names are walked is tested in tests/unit/test_plain_walking.py; here is what ONNX Runtime makes
of the names that were found.
"""

from __future__ import annotations

import os
import threading
from typing import TYPE_CHECKING

import onnx
import pytest
from onnx import TensorProto, numpy_helper
from support import eps, flows, models, plain_packages

from sealcar.errors import InvalidPackageError, NotFoundError, RequestError
from sealcar.ort import load

if TYPE_CHECKING:
    from pathlib import Path

    from sealcar.ort.runtime import Session

CPU = ("CPUExecutionProvider",)

INSIDE = (
    *("w", "./w", "sub/../w", "nodir/../w", "sub/w", ".//sub/./w", "../v/w"),
    *("link", "linked/w", "chain", "absolute", "hard", "a\\b", "ü"),
)
OUTSIDE = (
    *(
        "..",
        "../w",
        "sub/../../w",
        "nodir/../../w",
        "out",
        "parent/w",
        "out-absolute",
        "/etc/passwd",
    ),
    *("", "sub", "sub/", ".", "w/", "fifo", "loop", "w\0", "*/_ORT_MEM_ADDR_/*"),
)
MISSING = ("x", "dangling", "sub/x")


def package(root: Path, location: str) -> Path:
    """Return a package whose model names its weights so, with everything there can be in it.

    What lies outside would be taken: it has the size of the weights.
    """
    model, weights = models.external_model()
    files = {
        "model.onnx": plain_packages.naming_file(model, location),
        **dict.fromkeys(("w", "sub/w", "a\\b", "ü", "*/_ORT_MEM_ADDR_/*"), weights),
    }
    plain_packages.written(root / "p", files)
    plain_packages.write(root / "p" / "w", bytes(len(weights)))
    variant = root / "p" / plain_packages.VARIANT
    os.link(variant / "w", variant / "hard")
    os.mkfifo(variant / "fifo")
    for name, target in {
        "link": "w",
        "linked": "sub",
        "chain": "link",
        "absolute": str(variant / "w"),
        "out": "../w",
        "parent": "..",
        "out-absolute": str(root / "p" / "w"),
        "dangling": "nothing",
        "loop": "loop",
    }.items():
        (variant / name).symlink_to(target)
    return root / "p"


def loaded(path: Path) -> Session:
    return load(path, session_options=eps.quiet_options(), providers=CPU)


@pytest.mark.parametrize("location", INSIDE)
def test_weights_inside_are_loaded_by_every_spelling_of_their_name(
    location: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    session = loaded(package(tmp_path, location))
    want = flows.on_cpu(models.split_model(), models.sample_input())
    flows.assert_equal_answers(session.run(None, models.sample_input())[0], want)


@pytest.mark.parametrize("location", OUTSIDE)
def test_weights_outside_and_what_is_no_file_are_refused_before_the_runtime_looks(
    location: str, tmp_path: Path
) -> None:
    with pytest.raises(InvalidPackageError) as caught:
        loaded(package(tmp_path, location))
    assert str(caught.value).startswith(f"open: {tmp_path.resolve()}/p/main/v/model.onnx: tensor ")


@pytest.mark.parametrize("location", MISSING)
def test_missing_weights_are_not_found(location: str, tmp_path: Path) -> None:
    with pytest.raises(NotFoundError, match=r"model\.onnx: tensor "):
        loaded(package(tmp_path, location))


def test_empty_weights_are_an_empty_file_and_no_missing_one(tmp_path: Path) -> None:
    root = package(tmp_path, "w")
    plain_packages.write(root / plain_packages.VARIANT / "w", b"")
    # the runtime finds the file, and that it is too short
    with pytest.raises(Exception, match=r".+") as caught:
        loaded(root)
    assert type(caught.value).__module__.startswith("onnxruntime.")


def named_first(root: Path, location: str) -> Path:
    """Let the first tensor of a package's model lie in another file than the others."""
    path = root / plain_packages.VARIANT / "model.onnx"
    model = onnx.load(path, load_external_data=False)
    model.graph.initializer[0].external_data[0].value = location
    path.write_bytes(model.SerializeToString())
    return root


def test_one_file_by_two_names_is_one_file(tmp_path: Path) -> None:
    root = named_first(package(tmp_path, "w"), "sub/../w")
    want = flows.on_cpu(models.split_model(), models.sample_input())
    flows.assert_equal_answers(loaded(root).run(None, models.sample_input())[0], want)


def test_two_names_that_the_runtime_takes_for_one_are_refused(tmp_path: Path) -> None:
    with pytest.raises(InvalidPackageError, match=r"writes 'w' as './w', too"):
        loaded(named_first(package(tmp_path, "w"), "./w"))


def test_a_name_leads_where_it_leads_on_the_disk_and_not_where_its_text_does(
    tmp_path: Path,
) -> None:
    root = package(tmp_path, "l/../w")
    variant = root / plain_packages.VARIANT
    plain_packages.write(variant / "deep" / "w", (variant / "w").read_bytes())
    plain_packages.write(variant / "w", b"")
    (variant / "deep" / "er").mkdir()
    (variant / "l").symlink_to("deep/er")
    want = flows.on_cpu(models.split_model(), models.sample_input())
    flows.assert_equal_answers(loaded(root).run(None, models.sample_input())[0], want)


def test_tensors_that_the_runtime_reads_from_the_disk_alone_are_refused(tmp_path: Path) -> None:
    root = package(tmp_path, "w")
    path = root / plain_packages.VARIANT / "model.onnx"
    plain = path.read_bytes()
    external = numpy_helper.from_array(models.sample_input()["x"], "values")
    external.ClearField("raw_data")
    external.data_location = TensorProto.EXTERNAL
    external.external_data.add(key="location", value="w")
    sparse = onnx.SparseTensorProto(dims=[1, models.WIDTH], values=external)
    model = onnx.load_from_string(plain)
    model.graph.sparse_initializer.append(sparse)
    path.write_bytes(model.SerializeToString())
    with pytest.raises(InvalidPackageError, match="disk alone"):
        loaded(root)
    model = onnx.load_from_string(plain)
    constant = onnx.helper.make_node("Constant", [], ["c"], value=external)
    model.graph.node.insert(0, constant)
    path.write_bytes(model.SerializeToString())
    with pytest.raises(InvalidPackageError, match="only initializers"):
        loaded(root)


def test_weights_that_are_swapped_all_the_time_are_the_packages_own_or_none(
    tmp_path: Path,
) -> None:
    root = package(tmp_path, "w")
    variant = root / plain_packages.VARIANT
    weights = (variant / "w").read_bytes()
    over = threading.Event()

    def swap() -> None:
        while not over.is_set():
            (variant / "fresh").symlink_to("../w")
            (variant / "fresh").replace(variant / "w")
            (variant / "fresh").write_bytes(weights)
            (variant / "fresh").replace(variant / "w")

    swapper = threading.Thread(target=swap)
    swapper.start()
    want = flows.on_cpu(models.split_model(), models.sample_input())
    outcomes = set()
    try:
        for _ in range(80):
            try:
                session = loaded(root)
            except InvalidPackageError:
                outcomes.add("refused")
                continue
            # the weights outside are nothing but zeros
            flows.assert_equal_answers(session.run(None, models.sample_input())[0], want)
            outcomes.add("loaded")
    finally:
        over.set()
        swapper.join()
    assert outcomes == {"refused", "loaded"}


@pytest.mark.parametrize("name", eps.NAMES)
@pytest.mark.parametrize("blob", ["b.bin", "sub/b.bin", "link.bin", "ü.bin"])
def test_blobs_inside_are_loaded_through_the_callback(
    name: str, blob: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ep = eps.require(name)
    (tmp_path / "work").mkdir()
    monkeypatch.chdir(tmp_path / "work")
    compiled, blobs = plain_packages.compiled(ep, models.split_model())
    (content,) = blobs.values()
    files = {"model.onnx": plain_packages.naming_blob(compiled, blob.encode()), "b.bin": content}
    root = plain_packages.written(tmp_path / "p", {blob: content, **files}, ep=ep.name)
    if blob == "link.bin":
        (root / plain_packages.VARIANT / blob).unlink()
        (root / plain_packages.VARIANT / blob).symlink_to("b.bin")
    else:
        (root / plain_packages.VARIANT / "b.bin").touch()
    session = load(root, session_options=ep.options())
    want = flows.on_cpu(models.split_model(), models.sample_input())
    flows.assert_equal_answers(session.run(None, models.sample_input())[0], want)
    assert list((tmp_path / "work").iterdir()) == []


@pytest.mark.parametrize("name", eps.NAMES)
def test_blobs_outside_and_what_is_no_file_are_refused_before_the_provider_looks(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ep = eps.require(name)
    monkeypatch.chdir(tmp_path)
    compiled, blobs = plain_packages.compiled(ep, models.split_model())
    (content,) = blobs.values()
    # wherever the provider would look itself
    for place in ("b.bin", "p/b.bin"):
        plain_packages.write(tmp_path / place, content)
    root = plain_packages.written(tmp_path / "p", {"sub/x": b""}, ep=ep.name)
    variant = root / plain_packages.VARIANT
    (variant / "out.bin").symlink_to("../b.bin")
    os.mkfifo(variant / "fifo")
    for blob in (
        *("../b.bin", "sub/../../b.bin", "out.bin", str(root / "b.bin"), "", "..", "sub", "fifo"),
        *("b.bin", "sub/b.bin"),
    ):
        model = plain_packages.naming_blob(compiled, blob.encode())
        (variant / "model.onnx").write_bytes(model)
        with pytest.raises(RequestError, match="EPContext node") as caught:
            load(root, session_options=ep.options())
        missing = blob in ("b.bin", "sub/b.bin")
        assert isinstance(caught.value, NotFoundError if missing else InvalidPackageError)


@pytest.mark.parametrize("name", eps.NAMES)
def test_an_empty_blob_is_brought_and_refused_by_the_provider(name: str, tmp_path: Path) -> None:
    ep = eps.require(name)
    compiled, blobs = plain_packages.compiled(ep, models.split_model())
    root = plain_packages.written(
        tmp_path / "p", {"model.onnx": compiled, **dict.fromkeys(blobs, b"")}, ep=ep.name
    )
    with pytest.raises(Exception, match=r".+") as caught:
        load(root, session_options=ep.options())
    assert type(caught.value).__module__.startswith("onnxruntime.")
