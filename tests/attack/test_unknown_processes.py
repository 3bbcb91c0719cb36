"""Where the kernel doesn't name processes for certain, the next best is taken, and told.

A daemon with process numbers of its own, as in a sidecar's container, sees 0 for every caller's.
Kernels without SO_PEERPIDFD and SO_PASSPIDFD (before Linux 6.5) are real ones with a filter.
"""

from __future__ import annotations

import json
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest
from support import older_kernel
from support.daemon import COMMAND, Daemon, environment, run_command
from support.older_kernel import OlderDaemon, OlderSidecar, on_older_kernel
from support.payload_packages import COMPONENT, PACKAGE, VARIANT, publish
from support.pid_namespace import Sidecar
from support.raw_clients import ATTEST, RawClient

from sealcar.v1 import common_pb2
from sealcar.v1 import data_socket_pb2 as pb

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

older = pytest.mark.skipif(bool(older_kernel.missing()), reason=older_kernel.missing())
STATE = pb.ClientPacket(state=pb.StateRequest())
SENDS = """
import socket, sys
socket.socket(fileno=int(sys.argv[1])).send(bytes.fromhex(sys.argv[2]))
"""


@pytest.fixture(scope="module", params=[Sidecar, pytest.param(OlderDaemon, marks=older)])
def sees_less(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Daemon]:
    kind: type[Daemon] = request.param
    with kind(tmp_path_factory.mktemp("less")) as daemon:
        with daemon.connect() as client:
            publish(client, {"weights": b"w"})
        yield daemon


@pytest.mark.root
@pytest.mark.parametrize("packet", [ATTEST, STATE], ids=["first", "later"])
def test_a_process_is_told_from_another_by_its_handle_or_by_its_number(
    sees_less: Daemon, packet: pb.ClientPacket
) -> None:
    with sees_less.connect() as client:
        assert client.state().session == "pidfd"
        assert client.scope(PACKAGE, COMPONENT, VARIANT).read("weights") == b"w"
    with RawClient(sees_less, attest=packet is not ATTEST) as owner:
        sent_by_another(owner, packet)
        assert owner.error().reason == common_pb2.ERROR_REASON_DENIED


@older
@pytest.mark.root
def test_who_has_neither_is_his_connection_and_is_told_so(tmp_path: Path) -> None:
    with OlderSidecar(tmp_path) as daemon:
        socket = str(daemon.socket)
        shown = run_command("status", SEALCAR_SOCKET=socket).stdout
        assert "connection: it ends with its last connection (process unknown)" in shown
        done = subprocess.run(
            on_older_kernel([*COMMAND, "doctor", "--json"]),
            env=environment({"SEALCAR_SOCKET": socket}),
            capture_output=True,
            check=False,
        )
        seen = {each["check"]: each for each in json.loads(done.stdout)["findings"]}
        assert {seen[name]["state"] for name in ("session", "identity")} == {"weaker"}
        assert "(connection)" in seen["session"]["text"]
        assert "SO_PEERPIDFD" in seen["identity"]["text"]


def sent_by_another(owner: RawClient, packet: pb.ClientPacket) -> None:
    number = owner.sock.fileno()
    command = [sys.executable, "-c", SENDS, str(number), packet.SerializeToString().hex()]
    subprocess.run(command, pass_fds=[number], check=True, env=environment())
