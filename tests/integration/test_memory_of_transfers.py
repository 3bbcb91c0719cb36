"""No payload lies in memory whole, but in its destination: not in the daemon, not in the client."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Final

import pytest
from support.daemon import Daemon, environment
from support.grpcdoor import grpc_door, import_steps
from support.grpcdoor import scope as scope_message
from support.onnx_bytes import TINY
from support.payload_packages import varied

from sealcar.v1 import payloads_pb2

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

MIB: Final = 1 << 20
SIZE: Final = 256 * MIB
BIG: Final = varied(SIZE)
# a ring and every worker's scratch are a few MiB; a payload would be 256
FLAT: Final = 64 * MIB


def peak(pid: int) -> int:
    """Return the most memory that a process ever had, in bytes."""
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    return next(int(line.split()[1]) << 10 for line in lines if line.startswith("VmHWM"))


@pytest.fixture(scope="module")
def daemon(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Daemon]:
    with Daemon(tmp_path_factory.mktemp("memory")) as daemon:
        yield daemon


@pytest.fixture(scope="module")
def before(daemon: Daemon) -> int:
    """Give the daemon's peak from before anything big was imported, as it then is."""
    with grpc_door(daemon) as door:
        list(door.packages.Import(import_steps("small", {"model.onnx": varied(3 * MIB)})))
        found = peak(daemon.pid)
        list(door.packages.Import(import_steps("big", {"model.onnx": BIG})))
    return found


def read_by_grpc(daemon: Daemon) -> None:
    asked = payloads_pb2.ReadRequest(scope=scope_message("big"), name="model.onnx")
    with grpc_door(daemon) as door:
        assert sum(len(step.data) for step in door.payloads.Read(asked)) == SIZE


def read_by_ring(daemon: Daemon) -> None:
    with daemon.connect() as client, client.scope("big", "c", "v").map("model.onnx") as mapped:
        assert mapped.size == SIZE


def write_by_ring(daemon: Daemon) -> None:
    with daemon.connect() as client, client.begin("big", "c", "w") as transaction:
        transaction.write("weights", BIG, "initializers")
        transaction.write("model.onnx", TINY, "model")
        transaction.commit()


@pytest.mark.parametrize("move", [read_by_grpc, read_by_ring, write_by_ring])
def test_the_daemon_needs_a_few_mib_whatever_a_payloads_size(
    daemon: Daemon, before: int, move: Callable[[Daemon], None]
) -> None:
    move(daemon)
    assert peak(daemon.pid) - before < FLAT


CLIENT: Final = """
import sys, sealcar
def peak():
    with open("/proc/self/status") as status:
        return next(int(line.split()[1]) << 10 for line in status if line.startswith("VmHWM"))
client = sealcar.connect(sys.argv[1])
scope = client.scope("big", "c", "v")
scope.open()
before = peak()
form = sys.argv[2]
kept = scope.read("model.onnx") if form == "bytes" else scope.map("model.onnx")
print(peak() - before)
"""


@pytest.mark.parametrize("form", ["bytes", "mapped"])
@pytest.mark.usefixtures("before")
def test_a_client_needs_a_ring_beside_the_destination(daemon: Daemon, form: str) -> None:
    done = subprocess.run(
        [sys.executable, "-c", CLIENT, str(daemon.socket), form],
        env=environment(),
        capture_output=True,
        text=True,
        check=True,
    )
    assert SIZE <= int(done.stdout) < SIZE + 20 * MIB
