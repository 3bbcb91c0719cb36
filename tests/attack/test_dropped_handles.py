"""Handles go in every order, in many threads: what is still in use stays, and all goes at last."""

from __future__ import annotations

import gc
import itertools
import secrets
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import pytest
from onnx import TensorProto, helper
from support.daemon import Daemon
from support.payload_packages import PlannedBytes, PlannedPackage
from support.raw_clients import until

from sealcar.client import Client
from sealcar.ort import load, runtime
from sealcar.transfer.memory import PrivateMemory

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from sealcar.ort.loading import Initializers

WIDTH: Final = 256
NAME: Final = "model"
HANDLES: Final = ("client", "scope", "mapped", "view", "options", "value", "session")
THREADS: Final = 3
WEIGHTS: Final = np.random.default_rng(7).random((2, WIDTH, WIDTH), np.float32)


def model() -> bytes:
    """Return a model that adds two weights, which lie in a file."""
    weights = []
    for number in range(2):
        weight = TensorProto(name=f"w{number}", data_type=1, dims=[WIDTH, WIDTH])
        weight.data_location = TensorProto.EXTERNAL
        size = WIDTH * WIDTH * 4
        for key, text in (("location", "w"), ("offset", number * size), ("length", size)):
            weight.external_data.add(key=key, value=str(text))
        weights.append(weight)
    values = [helper.make_tensor_value_info(name, 1, [WIDTH, WIDTH]) for name in "xz"]
    nodes = [helper.make_node("Add", ["x", "w0"], ["y"]), helper.make_node("Add", ["y", "w1"], "z")]
    graph = helper.make_graph(nodes, "g", values[:1], values[1:], weights)
    made = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=10)
    return bytes(made.SerializeToString())


@pytest.fixture(scope="module")
def daemon(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Daemon]:
    planned = PlannedBytes("m.onnx", "model", model()), PlannedBytes("w", "initializers", DATA)
    with Daemon(tmp_path_factory.mktemp("d")) as daemon:
        with daemon.connect() as client:
            client.catalogue.import_(PlannedPackage(planned, NAME))
        yield daemon


DATA: Final = WEIGHTS.tobytes()
ONES: Final = np.ones((WIDTH, WIDTH), np.float32)
ANSWER: Final = ONES + WEIGHTS[0] + WEIGHTS[1]


def handles(daemon: Daemon, initializers: Initializers) -> dict[str, Any]:
    """Return what a process has of one model."""
    client = daemon.connect()
    scope = client.scope(NAME)
    mapped = scope.map("w", shared=initializers == "shared")
    options = runtime.onnxruntime().SessionOptions()
    session = load(
        client,
        NAME,
        session_options=options,
        providers=["CPUExecutionProvider"],
        initializers=initializers,
    )
    array = np.frombuffer(mapped.view, np.float32)
    value = runtime.onnxruntime().OrtValue.ortvalue_from_numpy_with_onnx_type(array, 1)
    found = (client, scope, mapped, mapped.view, options, value, session)
    return dict(zip(HANDLES, found, strict=True))


USES: Final[dict[str, Callable[[Any], bool]]] = {
    "client": lambda client: client.state().serving,
    "scope": lambda scope: scope.payload("w").size == len(DATA),
    "mapped": lambda mapped: mapped.view == DATA,
    "view": lambda view: view == DATA,
    "options": lambda options: options.execution_mode is not None,
    "value": lambda value: value.numpy().tobytes() == DATA,
    "session": lambda session: np.array_equal(session.run(None, {"x": ONES})[0], ANSWER),
}


def drop(kept: dict[str, Any], name: str) -> None:
    handle = kept.pop(name)
    if isinstance(handle, Client):
        handle.close()


def wrong_after(daemon: Daemon, initializers: Initializers, order: tuple[str, ...]) -> list[str]:
    """Drop all handles in an order, and return which one was broken by that of which other."""
    kept = handles(daemon, initializers)
    wrong = []
    for name in order:
        drop(kept, name)
        # what asks the daemon can't when the client is closed
        used = [each for each in kept if each not in ("client", "scope")]
        wrong += [f"{each} after {name} in {order}" for each in used if not USES[each](kept[each])]
    return wrong


def around(order: tuple[str, ...]) -> tuple[str, ...]:
    """Return an order of what has memory of a model, with the client and its scope anywhere."""
    found = list(order)
    for name in ("client", "scope"):
        found.insert(secrets.randbelow(len(found) + 1), name)
    return tuple(found)


@pytest.mark.parametrize("initializers", ["private", "shared"])
def test_what_is_used_stays_in_every_order_and_all_is_gone_at_last(
    daemon: Daemon, initializers: Initializers
) -> None:
    assert wrong_after(daemon, initializers, HANDLES) == []
    files = len(list(Path("/proc/self/fd").iterdir()))
    orders = [around(one) for one in itertools.permutations(HANDLES[2:])]
    with ThreadPoolExecutor(THREADS) as pool:
        found = list(pool.map(lambda order: wrong_after(daemon, initializers, order), orders))
    assert not [each for wrong in found for each in wrong]
    gc.collect()
    assert len(list(Path("/proc/self/fd").iterdir())) <= files
    assert not [one for one in gc.get_objects() if isinstance(one, PrivateMemory)]
    assert "sealcar-segment" not in Path("/proc/self/maps").read_text()
    with daemon.connect() as client:
        until(lambda: client.state().transfers == 0)
