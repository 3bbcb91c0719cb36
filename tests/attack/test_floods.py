"""Floods: one uid asks without pause, on all the connections it may have: others are served."""

from __future__ import annotations

import contextlib
import os
import selectors
import socket
import threading
from typing import TYPE_CHECKING, Final, Self

import pytest
from support.caller import call_as
from support.daemon import Daemon
from support.payload_packages import COMPONENT, PACKAGE, VARIANT, publish, varied
from support.raw_clients import SCOPE, RawClient

from sealcar.v1 import data_socket_pb2 as pb
from sealcar.v1 import payloads_pb2

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

pytestmark = pytest.mark.root

OTHER: Final = 4502
READ: Final = {"read": [PACKAGE, COMPONENT, VARIANT, "small"]}
READS: Final = 200
CONNECTIONS: Final = 100
FLOODS: Final = {
    "small reads": pb.ClientPacket(read=payloads_pb2.ReadRequest(scope=SCOPE, name="small")),
    "opens": pb.ClientPacket(open=payloads_pb2.OpenRequest(scope=SCOPE)),
}


@pytest.fixture(scope="module")
def daemon(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Daemon]:
    daemon = Daemon(tmp_path_factory.mktemp("floods"), reachable=True)
    daemon.grant(OTHER)
    with daemon:
        with daemon.connect(peer_uid=os.geteuid()) as client:
            publish(client, {"small": b"plain words", "big": varied(16 << 20)})
        yield daemon


class Flood:
    """Something done over and over on a thread of its own; `done` counts how often."""

    def __init__(self, once: Callable[[], int]) -> None:
        self.done = 0
        self.failure: BaseException | None = None
        self._once = once
        self._over = threading.Event()
        self._going = threading.Event()
        self._thread = threading.Thread(target=self._run)

    def _run(self) -> None:
        try:
            while not self._over.is_set():
                self.done += self._once()
                self._going.set()
        except BaseException as error:  # noqa: BLE001  (told to the test)
            self.failure = error
            self._going.set()

    def __enter__(self) -> Self:
        self._thread.start()
        self._going.wait(20)
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self._thread.join()
        assert self.failure is None


class Crowd:
    """Connections that ask again as soon as they were answered."""

    def __init__(self, daemon: Daemon, packet: pb.ClientPacket) -> None:
        self._data, self._waiting = packet.SerializeToString(), selectors.DefaultSelector()
        self.clients = [RawClient(daemon) for _ in range(CONNECTIONS)]
        for client in self.clients:
            client.sock.send(self._data)
            self._waiting.register(client.sock, selectors.EVENT_READ, client)

    def once(self) -> int:
        ready = self._waiting.select(1)
        for key, _ in ready:
            kind = pb.DaemonPacket.FromString(key.data.sock.recv(65536)).WhichOneof("packet")
            assert kind != "error", "who asks too much is made to wait, and never refused"
            key.data.sock.send(self._data)
        return len(ready)

    def close(self) -> None:
        self._waiting.close()
        for client in self.clients:
            client.close()


def served(daemon: Daemon, reads: int = READS) -> None:
    """Have another uid read, on connections of its own."""
    answers = call_as(OTHER, daemon.socket, *[READ] * reads)
    assert [bytes.fromhex(one["answer"]) for one in answers] == [b"plain words"] * reads


@pytest.mark.parametrize("kind", FLOODS)
def test_whoever_asks_without_pause_is_served_and_so_are_others(daemon: Daemon, kind: str) -> None:
    crowd = Crowd(daemon, FLOODS[kind])
    with contextlib.closing(crowd), Flood(crowd.once) as flood:
        served(daemon)
        before = flood.done
        served(daemon)
        assert flood.done > before, "it has its share"
        # and it goes on when nobody else is there
        alone = flood.done
        while flood.done < alone + 10 * CONNECTIONS:
            assert flood.failure is None
            threading.Event().wait(0.01)


@pytest.mark.parametrize(
    ("name", "kind"),
    [("data.sock", socket.SOCK_SEQPACKET), ("grpc.sock", socket.SOCK_STREAM)],
    ids=["data socket", "grpc socket"],
)
def test_whoever_connects_without_pause_keeps_no_other_from_reading(
    daemon: Daemon, name: str, kind: socket.SocketKind
) -> None:
    def connect() -> int:
        with socket.socket(socket.AF_UNIX, kind) as sock:
            sock.connect(str(daemon.socket / name))
        return 1

    with Flood(connect) as flood:
        served(daemon, 20)
        before = flood.done
        served(daemon, 20)
        assert flood.done > before


def test_whoever_connects_and_says_nothing_is_refused_beyond_what_one_may_have(
    daemon: Daemon,
) -> None:
    silent = []
    before = daemon.metric("sealcar_denials_total", rule="limit")
    try:
        for _ in range(600):
            sock = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
            silent.append(sock)
            sock.connect(str(daemon.socket / "data.sock"))
        served(daemon)
        assert daemon.metric("sealcar_denials_total", rule="limit") > before
    finally:
        for sock in silent:
            sock.close()


def test_a_crowd_of_big_transfers_goes_on_beside_small_reads(daemon: Daemon) -> None:
    clients = [RawClient(daemon) for _ in range(40)]
    waiting = selectors.DefaultSelector()
    for client in clients:
        client.read("big")
        waiting.register(client.sock, selectors.EVENT_READ, client)

    def move() -> int:
        ended = 0
        for key, _ in waiting.select(1):
            client = key.data
            packet = client.packet()
            kind = packet.WhichOneof("packet")
            assert kind != "error"
            if kind == "ring":
                client.mapped()
            elif kind == "piece":
                client.free(packet.piece.slot)
            elif kind == "done":
                ended += 1
                client.read("big")
        return ended

    try:
        with Flood(move) as flood:
            served(daemon)
            before = flood.done
            served(daemon)
            while flood.done < before + len(clients):
                assert flood.failure is None
                threading.Event().wait(0.01)
    finally:
        waiting.close()
        for client in clients:
            client.close()
