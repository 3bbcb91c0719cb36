"""The data socket: what one client says, packet by packet and as a stream, to a whole one.

It serves a real store.
"""

from __future__ import annotations

import contextlib
import os
import socket
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import structlog
from support.payload_packages import varied
from support.raw_streams import framed
from support.services import Running

from sealcar.transfer.descriptors import receive
from sealcar.v1 import common_pb2, payloads_pb2
from sealcar.v1 import data_socket_pb2 as pb
from sealcar_server import metrics
from sealcar_server.access.sessions import Sessions
from sealcar_server.endpoints.data_door import Limits, Services
from sealcar_server.endpoints.data_packets import name_senders
from sealcar_server.endpoints.data_socket import DataSocket
from sealcar_server.transfer.budget import Budget
from sealcar_server.transfer.engine import Engine

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

_ATTEST: Final = pb.ClientPacket(attest=pb.Attest(protocol=1, release="fuzz"))
# an input is packets, each after its length in one byte
_LONGEST: Final = 255
_DEFECTS: Final = frozenset({"error", "exception", "critical"})


@contextlib.contextmanager
def packets() -> Iterator[tuple[Callable[[bytes], None], list[bytes]]]:
    """Say anything to the data socket; it must serve on, and log no defect."""
    defects: list[object] = []

    def note(_logger: object, method: str, event: Any) -> Any:  # noqa: ANN401  (structlog's)
        if method in _DEFECTS:
            defects.append(event)
        raise structlog.DropEvent

    with contextlib.ExitStack() as stack:
        structlog.configure(processors=[note])
        stack.callback(structlog.reset_defaults)
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        running = stack.enter_context(Running(folder))
        running.import_(payloads={("det", "onnx", "model.onnx"): varied(100_000)})
        path, stream = folder / "data.sock", folder / "flow.sock"
        stack.callback(_data_socket(running, (path, stream), stack).close)

        def one(data: bytes) -> None:
            _talk(path, data)
            _pour(stream, data)
            _alive(path)
            assert not defects, defects

        yield one, _seeds()


def _data_socket(
    running: Running, paths: tuple[Path, Path], stack: contextlib.ExitStack
) -> DataSocket:
    engine = Engine(1)
    engine.start()
    stack.callback(engine.close)
    services = Services(
        payloads=running.payloads,
        sessions=Sessions(),
        engine=engine,
        budget=Budget(64 << 20),
        meter=metrics.Metrics(),
        release="fuzz",
        isolation="none",
        locked=lambda: False,
    )
    listeners = {}
    for path, kind in zip(paths, (socket.SOCK_SEQPACKET, socket.SOCK_STREAM), strict=True):
        listener = socket.socket(socket.AF_UNIX, kind)
        name_senders(listener)
        listener.bind(str(path))
        listener.listen()
        listeners[listener] = "default"
    made = DataSocket(listeners, services, Limits())
    made.start()
    return made


def _talk(path: Path, data: bytes) -> None:
    with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as client:
        client.settimeout(10)
        client.connect(str(path))
        with contextlib.suppress(BrokenPipeError, ConnectionResetError):
            if not data or data[0] % 8:
                client.send(_ATTEST.SerializeToString())
                _take(client)
            while data:
                length, data = data[0], data[1:]
                packet, data = data[:length], data[length:]
                if packet:
                    client.send(packet)
                    _take(client)


def _pour(path: Path, data: bytes) -> None:
    """Say the same packets over a stream; every second time, whatever they are."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as client:
        client.settimeout(10)
        client.connect(str(path))
        said = [framed(_ATTEST.SerializeToString())] if not data or data[0] % 8 else []
        if len(data) % 2:
            said.append(data)
            data = b""
        while data:
            length, data = data[0], data[1:]
            said.append(framed(data[:length]))
            data = data[length:]
        with contextlib.suppress(BrokenPipeError, ConnectionResetError, TimeoutError):
            client.sendall(b"".join(said))
            client.settimeout(0.002)
            while client.recv(1 << 20):
                pass


def _take(client: socket.socket) -> None:
    """Receive what comes soon."""
    client.settimeout(0.002)
    with contextlib.suppress(TimeoutError):
        while True:
            data, descriptor = receive(client)
            if descriptor is not None:
                os.close(descriptor)
            if not data:
                raise BrokenPipeError
    client.settimeout(10)


def _alive(path: Path) -> None:
    """Fail if the socket's thread doesn't answer any more."""
    deadline = time.monotonic() + 10
    with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as client:
        client.settimeout(10)
        client.connect(str(path))
        client.send(_ATTEST.SerializeToString())
        while not receive(client)[0]:
            assert time.monotonic() < deadline


def _seeds() -> list[bytes]:
    scope = common_pb2.Scope(
        package=common_pb2.PackageRef(name="ocr"), component="det", variant="onnx"
    )
    other = common_pb2.Scope(package=scope.package, component="det", variant="w")
    read = payloads_pb2.ReadRequest(scope=scope, name="model.onnx")
    write = payloads_pb2.WriteBegin(
        transaction=bytes(16), name="x", kind=common_pb2.PAYLOAD_KIND_BLOB, size=5
    )
    talks: list[list[pb.ClientPacket]] = [
        [pb.ClientPacket(open=payloads_pb2.OpenRequest(scope=scope))],
        [
            pb.ClientPacket(read=read),
            pb.ClientPacket(ring_mapped=pb.RingMapped()),
            pb.ClientPacket(free=pb.Free(slots=[0])),
        ],
        [pb.ClientPacket(begin=payloads_pb2.BeginRequest(scope=other))],
        [pb.ClientPacket(write=write), pb.ClientPacket(piece=pb.Piece(slot=0, size=5, last=True))],
        [pb.ClientPacket(commit=payloads_pb2.CommitRequest(transaction=bytes(16), payloads=1))],
        [pb.ClientPacket(abort=payloads_pb2.AbortRequest(transaction=bytes(16)))],
        [pb.ClientPacket(state=pb.StateRequest()), pb.ClientPacket(cancel=pb.Cancel())],
        [_ATTEST],
    ]
    return [b"".join(map(_framed, talk)) for talk in talks]


def _framed(packet: pb.ClientPacket) -> bytes:
    data = packet.SerializeToString()[:_LONGEST]
    return bytes([len(data)]) + data
