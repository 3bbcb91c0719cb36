"""Weights that processes share: the same answers, and one copy of what the runtime may borrow."""

from __future__ import annotations

import gc
import os
import secrets
from typing import TYPE_CHECKING, Final

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper
from support import flows
from support.daemon import Daemon
from support.segment_readers import mapped_by

from sealcar.errors import InvalidRequestError, WrongStateError
from sealcar.ort import load, runtime

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from numpy.typing import NDArray

    from sealcar.client import Client

CPU: Final = ("CPUExecutionProvider",)
WIDTH: Final = 512
_random: Final = np.random.default_rng(flows.fresh_seed())


def random(*shape: int) -> NDArray[np.float32]:
    return _random.random(shape, np.float32)


def model(
    nodes: list[onnx.NodeProto],
    weights: list[onnx.TensorProto],
    shape: tuple[int, ...] = (1, WIDTH),
    opset: int = 21,
) -> onnx.ModelProto:
    graph = helper.make_graph(
        nodes,
        "g",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, shape)],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, None)],
        weights,
    )
    opsets = [helper.make_opsetid("", opset)]
    return helper.make_model(graph, opset_imports=opsets, ir_version=10)


def borrowable() -> onnx.ModelProto:
    """A product and a sum, each with a weight of its own."""
    nodes = [
        helper.make_node("MatMul", ["x", "w"], ["p"]),
        helper.make_node("Add", ["p", "b"], ["y"]),
    ]
    weights = [
        numpy_helper.from_array(random(WIDTH, WIDTH), "w"),
        numpy_helper.from_array(random(128, WIDTH), "b"),
    ]
    return model(nodes, weights)


def computed_with() -> onnx.ModelProto:
    """The runtime multiplies the weights before the session runs."""
    nodes = [
        helper.make_node("Conv", ["x", "w"], ["c"]),
        helper.make_node("BatchNormalization", ["c", "s", "b", "m", "v"], ["y"]),
    ]
    weights = [numpy_helper.from_array(random(128, 128, 3, 3), "w")]
    weights += [numpy_helper.from_array(random(128) + 1, each) for each in "sbmv"]
    return model(nodes, weights, (1, 128, 8, 8))


def packed() -> onnx.ModelProto:
    """Weights of half a byte each."""
    data = _random.integers(0, 256, WIDTH * WIDTH // 2, np.uint8).tobytes()
    weights = [
        helper.make_tensor("q", TensorProto.INT4, (WIDTH, WIDTH), data, raw=True),
        numpy_helper.from_array(np.full(WIDTH, 0.01, np.float32), "s"),
    ]
    nodes = [
        helper.make_node("DequantizeLinear", ["q", "s"], ["w"], axis=0),
        helper.make_node("MatMul", ["x", "w"], ["y"]),
    ]
    return model(nodes, weights)


def feed(of: onnx.ModelProto) -> dict[str, NDArray[np.float32]]:
    dims = of.graph.input[0].type.tensor_type.shape.dim
    return {"x": random(*(dim.dim_value for dim in dims))}


@pytest.fixture(scope="module")
def daemon(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Daemon]:
    with Daemon(tmp_path_factory.mktemp("d")) as daemon:
        yield daemon


def take_in(client: Client, folder: Path, whole: onnx.ModelProto) -> str:
    """Import a model, and return the package's name."""
    name = secrets.token_hex(4)
    data, weights = flows.moved_out(whole)
    flows.publish_model(client, folder / name, name, model=data, weights=weights)
    return name


@pytest.mark.parametrize("make", [borrowable, computed_with, packed])
def test_shared_weights_give_the_answers_of_private_ones(
    client: Client, tmp_path: Path, make: object
) -> None:
    assert callable(make)
    whole = make()
    name = take_in(client, tmp_path, whole)
    given = feed(whole)
    want = flows.on_cpu(whole.SerializeToString(), given)
    for kind in ("private", "shared", "shared"):
        options = runtime.onnxruntime().SessionOptions()
        before = options.log_severity_level
        session = load(client, name, session_options=options, providers=CPU, initializers=kind)
        assert options.log_severity_level == before
        flows.assert_equal_answers(session.run(None, given)[0], want)


def test_only_weights_that_are_shared_stay_unpacked(client: Client, tmp_path: Path) -> None:
    models = (borrowable(), packed(), computed_with())
    names = [take_in(client, tmp_path, whole) for whole in models]
    for name, entry in zip(names, ("1", "1", "0"), strict=True):
        options = runtime.onnxruntime().SessionOptions()
        load(client, name, session_options=options, providers=CPU, initializers="shared")
        assert options.get_session_config_entry("session.disable_prepacking") == entry


def test_what_can_not_be_shared_is_logged_for_whoever_set_a_severity(
    client: Client, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    name = take_in(client, tmp_path, computed_with())
    for severity in (None, 3):
        options = runtime.onnxruntime().SessionOptions()
        if severity is not None:
            options.log_severity_level = severity
        capfd.readouterr()
        load(client, name, session_options=options, providers=CPU, initializers="shared")
        told = "Exception during initialization" in capfd.readouterr().err
        assert told == (severity is not None)


def test_sessions_use_shared_weights_where_they_lie_as_long_as_they_live(
    daemon: Daemon, tmp_path: Path
) -> None:
    whole = borrowable()
    size = sum(len(each.raw_data) for each in whole.graph.initializer)
    given = feed(whole)
    want = flows.on_cpu(whole.SerializeToString(), given)
    before = daemon.metric("sealcar_phase_seconds_count", phase="fill")
    with daemon.connect() as client:
        name = take_in(client, tmp_path, whole)
        sessions = [load(client, name, providers=CPU, initializers="shared") for _ in range(3)]
        after = daemon.metric("sealcar_phase_seconds_count", phase="fill")
    gc.collect()
    assert after - before == 1
    for _ in range(2):
        for session in sessions:
            flows.assert_equal_answers(session.run(None, given)[0], want)
        assert size <= mapped_by(os.getpid()).proportional + 4096
        del session, sessions[1:]
        gc.collect()
    sessions.clear()
    gc.collect()
    assert not mapped_by(os.getpid()).inodes, "with the last session the memory goes"


def test_who_wants_packed_weights_gets_copies_of_his_own(client: Client, tmp_path: Path) -> None:
    whole = borrowable()
    name = take_in(client, tmp_path, whole)
    options = runtime.onnxruntime().SessionOptions()
    options.add_session_config_entry("session.disable_prepacking", "0")
    session = load(client, name, session_options=options, providers=CPU, initializers="shared")
    given = feed(whole)
    want = flows.on_cpu(whole.SerializeToString(), given)
    del options
    gc.collect()
    assert not mapped_by(os.getpid()).inodes
    flows.assert_equal_answers(session.run(None, given)[0], want)


def test_options_serve_one_model_with_shared_weights(client: Client, tmp_path: Path) -> None:
    name = take_in(client, tmp_path, borrowable())
    options = runtime.onnxruntime().SessionOptions()
    load(client, name, session_options=options, providers=CPU, initializers="shared")
    with pytest.raises(WrongStateError, match="new ones"):
        load(client, name, session_options=options, providers=CPU, initializers="shared")


def test_another_place_for_weights_is_refused(client: Client) -> None:
    with pytest.raises(InvalidRequestError, match="private or shared"):
        load(client, "any", initializers="elsewhere")  # type: ignore[call-overload]  # the test's point
