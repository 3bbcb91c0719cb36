"""Weights that the runtime doesn't borrow: it copies them from the one place that they came to."""

from __future__ import annotations

import subprocess
import sys
from typing import TYPE_CHECKING, Final

import pytest
from onnx import TensorProto, helper
from support.daemon import Daemon, environment
from support.payload_packages import PlannedBytes, PlannedPackage

if TYPE_CHECKING:
    from collections.abc import Iterator

MIB: Final = 1 << 20
COUNT: Final = 12
CHANNELS: Final = 1448  # squared, four bytes each: 8 MiB
TENSOR: Final = CHANNELS * CHANNELS * 4
TOTAL: Final = COUNT * TENSOR
# what loading takes beside the weights: the runtime's own, a ring
REST: Final = 28 * MIB
LOADER: Final = """
import sys, sealcar, sealcar.ort
from sealcar.ort import runtime
def memory(name):
    with open("/proc/self/status") as status:
        return next(int(line.split()[1]) << 10 for line in status if line.startswith(name))
ort = runtime.onnxruntime()
options = ort.SessionOptions()
options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_DISABLE_ALL
options.add_session_config_entry("session.disable_prepacking", "1")
client = sealcar.connect(sys.argv[1])
client.scope("m").payloads
before = memory("VmRSS")
session = sealcar.ort.load(
    client, "m", session_options=options, providers=["CPUExecutionProvider"],
)
peak = memory("VmHWM") - before
del options
import gc; gc.collect()
print(peak, memory("VmRSS") - before)
"""


def convolutions() -> bytes:
    """Return a model that the runtime computes with while it loads: its weights aren't lent."""
    weights, nodes, last = [], [], "x"
    for number in range(COUNT):
        dims = [CHANNELS, CHANNELS, 1, 1]
        weight = TensorProto(name=f"w{number}", data_type=TensorProto.FLOAT, dims=dims)
        weight.data_location = TensorProto.EXTERNAL
        for key, text in (("location", "w"), ("offset", number * TENSOR), ("length", TENSOR)):
            weight.external_data.add(key=key, value=str(text))
        weights.append(weight)
        nodes.append(helper.make_node("Conv", [last, weight.name], [f"y{number}"]))
        last = f"y{number}"
    values = [helper.make_tensor_value_info(name, 1, [1, CHANNELS, 1, 1]) for name in ("x", last)]
    graph = helper.make_graph(nodes, "g", values[:1], values[1:], weights)
    made = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=10)
    return bytes(made.SerializeToString())


@pytest.fixture(scope="module")
def daemon(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Daemon]:
    planned = (
        PlannedBytes("m.onnx", "model", convolutions()),
        PlannedBytes("w", "initializers", bytes(TOTAL - 1) + b"x"),
    )
    with Daemon(tmp_path_factory.mktemp("d")) as daemon:
        with daemon.connect() as client:
            client.catalogue.import_(PlannedPackage(planned, "m"))
        yield daemon


def test_nothing_is_between_the_payload_and_the_runtimes_own_copy_but_one_tensor(
    daemon: Daemon,
) -> None:
    done = subprocess.run(
        [sys.executable, "-c", LOADER, str(daemon.socket)],
        env=environment(),
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )
    peak, left = map(int, done.stdout.split())
    # the payload, what the runtime keeps of it, and the copy that it makes of one at a time
    assert TOTAL < peak < 2 * TOTAL + TENSOR + REST
    assert left < TOTAL + REST, "the payload's own memory goes with the options"
