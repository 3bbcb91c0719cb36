"""When a read over a stream is over: not before its last byte is sent, and then only if allowed."""

from __future__ import annotations

import contextlib
import socket
import threading
from typing import TYPE_CHECKING

import pytest
from support.payload_packages import varied
from support.raw_clients import ATTEST, until
from support.raw_streams import RawStream, framed
from support.services import Running

from sealcar.errors import LockedError
from sealcar.v1 import common_pb2, payloads_pb2
from sealcar.v1 import data_socket_pb2 as pb
from sealcar_server.access.sessions import Sessions
from sealcar_server.endpoints.data_door import Limits, Services
from sealcar_server.endpoints.data_packets import name_senders
from sealcar_server.endpoints.data_socket import DataSocket
from sealcar_server.metrics import Metrics
from sealcar_server.transfer.budget import Budget
from sealcar_server.transfer.engine import Engine, Token

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from sealcar_server.sealing.scratch import Scratch

DATA = varied(3 << 20)
READ = payloads_pb2.ReadRequest(
    scope=common_pb2.Scope(
        package=common_pb2.PackageRef(name="ocr"), component="det", variant="onnx"
    ),
    name="model.onnx",
)


class Client(RawStream):
    """One over a socket that isn't in a daemon's directory."""

    def __init__(self, path: Path) -> None:
        self.sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self.sock.settimeout(20)
        self.sock.connect(str(path))
        self.rings = []
        self.sock.sendall(framed(ATTEST.SerializeToString()))
        assert self.packet().WhichOneof("packet") == "attested"


class Busy:
    """A job that keeps the only worker."""

    owner = "somebody else"

    def __init__(self) -> None:
        self.over = threading.Event()

    def work(self, token: Token, scratch: Scratch) -> None:
        del token, scratch
        assert self.over.wait(10)


@pytest.fixture
def serving(tmp_path: Path) -> Iterator[DataSocket]:
    with contextlib.ExitStack() as stack:
        running = stack.enter_context(Running(tmp_path / "r"))
        running.import_(payloads={("det", "onnx", "model.onnx"): DATA})
        engine = Engine(1)
        engine.start()
        stack.callback(engine.close)
        services = Services(
            payloads=running.payloads,
            sessions=Sessions(),
            engine=engine,
            budget=Budget(64 << 20),
            meter=Metrics(),
            release="test",
            isolation="none",
            locked=lambda: False,
        )
        listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        name_senders(listener)
        listener.bind(str(tmp_path / "flow.sock"))
        listener.listen()
        made = DataSocket({listener: "default"}, services, Limits())
        made.start()
        stack.callback(made.close)
        yield made


def test_what_was_forbidden_while_its_end_was_on_the_way_is_not_sent(
    serving: DataSocket, tmp_path: Path
) -> None:
    holds, over, busy = threading.Event(), threading.Event(), Busy()
    serving._services.engine.put(busy, Token(0))

    def forbid() -> None:
        """Hold the socket's thread until the workers are done, and forbid it then."""
        holds.set()
        assert over.wait(10)
        (connection,) = serving._connections
        assert connection.operation is not None
        connection.operation.stop(LockedError("locked"))

    with Client(tmp_path / "flow.sock") as client:
        client.send(pb.ClientPacket(read=READ))
        assert client.packet().WhichOneof("packet") == "reading"
        (connection,) = serving._connections
        serving._door.post(forbid)
        assert holds.wait(10)
        operation = connection.operation
        assert operation is not None
        flow = operation._flow
        assert flow is not None
        busy.over.set()
        until(lambda: flow._reported)
        over.set()
        _, end = client.pieces()
        assert end.error.reason == common_pb2.ERROR_REASON_LOCKED
