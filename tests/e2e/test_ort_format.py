"""Models in ONNX Runtime's own format, plain and sealed."""

from __future__ import annotations

import gc
import subprocess
import sys
from typing import TYPE_CHECKING, Any, Final

import onnx
import pytest
from onnx import TensorProto, helper
from support import eps, flows, models, ort_format, plain_packages
from support.daemon import Daemon

from sealcar import publish
from sealcar.errors import InvalidPackageError
from sealcar.ort import load

if TYPE_CHECKING:
    from pathlib import Path

    from sealcar.ort.loading import Initializers

CPU: Final = ("CPUExecutionProvider",)
WIDTH: Final = 256
# a program, for it leaves files open
CONVERTER: Final = (sys.executable, "-m", "onnxruntime.tools.convert_onnx_models_to_ort")


@pytest.fixture(scope="module")
def converted(tmp_path_factory: pytest.TempPathFactory) -> dict[str, bytes]:
    """Give models as the runtime's own tool converts them."""
    folder = tmp_path_factory.mktemp("converted")
    (folder / "split.onnx").write_bytes(models.split_model(WIDTH))
    (folder / "leaky.onnx").write_bytes(leaky_model())
    command = [*CONVERTER, str(folder), "--optimization_style", "Fixed"]
    subprocess.run(command, check=True, capture_output=True)
    found = {path.stem: path.read_bytes() for path in folder.glob("*.ort")}
    assert all(data[4:8] == b"ORTM" for data in found.values())
    return found


def leaky_model() -> bytes:
    """Return a model of one operator, whose name has as many letters as EPContext."""
    value = [helper.make_tensor_value_info(name, TensorProto.FLOAT, [1]) for name in "xy"]
    nodes = [helper.make_node("LeakyRelu", ["x"], ["y"])]
    graph = helper.make_graph(nodes, "leaky", value[:1], value[1:])
    opset = [helper.make_opsetid("", 17)]
    made: onnx.ModelProto = helper.make_model(graph, opset_imports=opset, ir_version=10)
    return bytes(made.SerializeToString())


def package(root: Path, model: bytes, **session_options: str) -> Path:
    told: dict[str, Any] = {"model_file": "model.ort", "session_options": session_options}
    return plain_packages.written(root, {"model.ort": model, "w.bin": b"w"}, told)


def test_a_model_in_ort_format_loads_plain_and_sealed(
    converted: dict[str, bytes], daemon: Daemon, tmp_path: Path
) -> None:
    root = package(tmp_path / "p", converted["split"])
    onnx_model = {"model.onnx": models.split_model(WIDTH)}
    other = plain_packages.written(tmp_path / "other", onnx_model)
    want = flows.on_cpu(models.split_model(WIDTH), models.sample_input(WIDTH))
    with daemon.connect() as client:
        with publish.plan(root, name="p") as plan:
            client.catalogue.import_(plan)
        for source in ((root,), (client, "p")):
            options = eps.quiet_options()
            session = load(*source, variant="v", session_options=options, providers=CPU)
            got = session.run(None, models.sample_input(WIDTH))[0]
            flows.assert_equal_answers(got, want)
            # and the options go on serving ONNX models
            load(other, variant="v", session_options=options, providers=CPU)


def test_a_large_model_is_used_where_it_lies_though_the_daemon_is_gone(tmp_path: Path) -> None:
    model = ort_format.converted(tmp_path / "model.ort")
    given = models.sample_input(ort_format.WIDTH)
    want = flows.on_cpu(ort_format.plain(), given)
    with Daemon(tmp_path) as daemon, daemon.connect() as client:
        with publish.plan(model, name="p") as plan:
            client.catalogue.import_(plan)
        kinds: tuple[Initializers, ...] = ("private", "shared")
        sessions = [
            load(client, "p", session_options=options, providers=CPU, initializers=kind)
            for kind, options in ((each, eps.quiet_options()) for each in kinds)
        ]
    gc.collect()
    assert {each.name for each in ort_format.maps()} == {ort_format.OWN, ort_format.SHARED}
    for session in sessions:
        flows.assert_equal_answers(session.run(None, given)[0], want)


def test_a_session_told_to_use_the_models_bytes_reads_none_that_were_freed(
    converted: dict[str, bytes], tmp_path: Path
) -> None:
    root = package(tmp_path / "p", converted["split"])
    options = eps.quiet_options()
    for entry in ("directly", "for_initializers"):
        options.add_session_config_entry(f"session.use_ort_model_bytes_{entry}", "1")
    session = load(
        root, variant="v", session_options=options, providers=CPU, allow_plaintext_files=True
    )
    assert options.get_session_config_entry("session.use_ort_model_bytes_directly") == "0"
    # what would take the place of memory that was given back
    _others = [bytes([number % 251]) * len(converted["split"]) for number in range(20)]
    want = flows.on_cpu(models.split_model(WIDTH), models.sample_input(WIDTH))
    flows.assert_equal_answers(session.run(None, models.sample_input(WIDTH))[0], want)


def test_a_model_in_ort_format_has_nothing_beside_it(
    converted: dict[str, bytes], tmp_path: Path
) -> None:
    for number, key in enumerate(
        ("session.model_external_initializers_file_folder_path", "ep.context_file_path")
    ):
        root = package(tmp_path / f"p{number}", converted["split"], **{key: "w.bin"})
        with pytest.raises(InvalidPackageError, match=f"ORT format has no files.*{key}"):
            load(root, variant="v", session_options=eps.quiet_options(), providers=CPU)


def test_a_compiled_model_in_ort_format_is_refused_since_its_blobs_are_not_seen(
    converted: dict[str, bytes], tmp_path: Path
) -> None:
    assert b"LeakyRelu" in converted["leaky"]
    compiled = converted["leaky"].replace(b"LeakyRelu", b"EPContext")
    root = package(tmp_path / "p", compiled)
    with pytest.raises(InvalidPackageError, match=r"main/v/model\.ort: .*must be an ONNX file"):
        load(root, variant="v", session_options=eps.quiet_options(), providers=CPU)
