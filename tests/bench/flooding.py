"""Programs of the flood: one that reads small payloads and takes the time, and those that flood.

`python flooding.py ROLE SOCKET UID`: becomes that uid, says "ready", and works until its standard
input says what to do or ends.
"""

from __future__ import annotations

import json
import os
import selectors
import socket
import sys
import time
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, Final

sys.path.insert(0, str(Path(__file__).parent.parent))

from support.payload_packages import COMPONENT, PACKAGE, VARIANT
from support.raw_clients import SCOPE, RawClient

import sealcar
import sealcar.client
from sealcar.errors import ResourceError
from sealcar.v1 import data_socket_pb2 as pb
from sealcar.v1 import payloads_pb2

if TYPE_CHECKING:
    from collections.abc import Callable

_BUSY: Final = 120  # connections of one program of a flood that asks
_BIG: Final = 48
_COPIED: Final = 32 << 20  # bytes, beyond what caches hold


def reader(folder: Path) -> None:
    """Read small payloads; for each line of standard input, print the seconds of that many."""
    with sealcar.connect(folder, peer_uid=0) as client:
        scope = client.scope(PACKAGE, COMPONENT, VARIANT)
        for _ in range(200):
            scope.read("small")
        _say_ready()
        for line in sys.stdin:
            seconds = []
            for _ in range(int(line)):
                begun = time.perf_counter()
                scope.read("small")
                seconds.append(time.perf_counter() - begun)
                time.sleep(0.001)
            print(json.dumps(seconds), flush=True)  # noqa: T201


def connecting(folder: Path, name: str, kind: socket.SocketKind) -> None:
    """Connect and hang up, as fast as it goes."""
    while True:
        with socket.socket(socket.AF_UNIX, kind) as sock:
            try:
                sock.connect(str(folder / name))
            except BlockingIOError:
                time.sleep(0.001)


def asking(folder: Path, packet: pb.ClientPacket) -> None:
    """Ask on many connections at a time, each again as soon as it was answered."""
    data = packet.SerializeToString()
    daemon: Any = SimpleNamespace(socket=folder)
    waiting = selectors.DefaultSelector()
    for _ in range(_BUSY):
        client = RawClient(daemon)
        client.sock.send(data)
        waiting.register(client.sock, selectors.EVENT_READ, client)
    while True:
        for key, _ in waiting.select():
            key.data.sock.recv(65536)
            key.data.sock.send(data)


def transferring(folder: Path) -> None:
    """Read a big payload over and over, on many connections at a time."""
    daemon: Any = SimpleNamespace(socket=folder)
    waiting = selectors.DefaultSelector()
    read = payloads_pb2.ReadRequest(scope=SCOPE, name="big")
    for _ in range(_BIG):
        client = RawClient(daemon)
        client.send(pb.ClientPacket(read=read))
        waiting.register(client.sock, selectors.EVENT_READ, client)
    while True:
        for key, _ in waiting.select():
            client = key.data
            packet = client.packet()
            kind = packet.WhichOneof("packet")
            if kind == "ring":
                client.mapped()
            elif kind == "piece":
                client.free(packet.piece.slot)
            elif kind in {"done", "error"}:
                client.send(pb.ClientPacket(read=read))


def joining(folder: Path) -> None:
    """Come as a new client all the time."""
    while True:
        try:
            with sealcar.connect(folder, peer_uid=0) as client:
                client.state()
        except ResourceError:
            time.sleep(0.001)


def burning(_folder: Path) -> None:
    """Compute, and touch no daemon."""
    while True:
        sum(range(10000))


def copying(_folder: Path) -> None:
    """Compute by copying memory, as much as a transfer moves, and touch no daemon."""
    source, target = bytes(_COPIED), bytearray(_COPIED)
    while True:
        target[:] = source


ROLES: Final[dict[str, Callable[[Path], None]]] = {
    "reader": reader,
    "connections": lambda folder: connecting(folder, "data.sock", socket.SOCK_SEQPACKET),
    "grpc connections": lambda folder: connecting(folder, "grpc.sock", socket.SOCK_STREAM),
    "new clients": joining,
    "small reads": lambda folder: asking(
        folder, pb.ClientPacket(read=payloads_pb2.ReadRequest(scope=SCOPE, name="small"))
    ),
    "opens": lambda folder: asking(
        folder, pb.ClientPacket(open=payloads_pb2.OpenRequest(scope=SCOPE))
    ),
    "big transfers": transferring,
}
CONTROLS: Final[dict[str, Callable[[Path], None]]] = {"burning": burning, "copying": copying}


def _main(role: str, folder: str, uid: str) -> None:
    if role != "reader":
        os.sched_setscheduler(0, os.SCHED_BATCH, os.sched_param(0))
        os.setpriority(os.PRIO_PROCESS, 0, 19)
    number = int(uid)
    os.setgroups([])
    os.setresgid(number, number, number)
    os.setresuid(number, number, number)
    if role != "reader":
        _say_ready()
    (ROLES | CONTROLS)[role](Path(folder))


def _say_ready() -> None:
    print("ready", flush=True)  # noqa: T201  (what it tells its parent)


if __name__ == "__main__":
    _main(*sys.argv[1:])
