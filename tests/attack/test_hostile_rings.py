"""Clients that tamper with their rings, or die in the middle: it costs nobody but themselves."""

from __future__ import annotations

import ctypes
import fcntl
import mmap
import os
import subprocess
import sys
import threading
import time
from typing import TYPE_CHECKING

import pytest
from support.daemon import Daemon, environment
from support.grpcdoor import grpc_door, write_steps
from support.onnx_bytes import TINY
from support.payload_packages import COMPONENT, PACKAGE, publish, varied
from support.raw_clients import SCOPE, RawClient, memfds, until
from support.unharmed import unharmed

from sealcar.transfer.descriptors import FIXED_SIZE, receive
from sealcar.v1 import common_pb2, payloads_pb2
from sealcar.v1 import data_socket_pb2 as pb
from sealcar_server.sealing.layout import FIRST_PIECE, PIECE

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

BIG = varied(20 << 20)
WRONG_STATE = common_pb2.ERROR_REASON_WRONG_STATE


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Daemon]:
    with Daemon(tmp_path_factory.mktemp("d")) as daemon:
        with daemon.connect() as client:
            publish(client, {"big": BIG, "small": b"small"})
        yield daemon


@pytest.fixture
def daemon(shared: Daemon) -> Iterator[Daemon]:
    with unharmed(shared):
        yield shared


@pytest.mark.parametrize("name", ["big", "written"])
def test_a_client_can_not_shrink_its_ring_under_the_daemon(daemon: Daemon, name: str) -> None:
    with RawClient(daemon) as client:
        if name == "big":
            client.read(name)
        else:
            begin = payloads_pb2.BeginRequest(scope=SCOPE)
            begin.scope.variant = "written"
            client.send(pb.ClientPacket(begin=begin))
            write = payloads_pb2.WriteBegin(
                transaction=client.packet().begun.transaction,
                name="x",
                kind=common_pb2.PAYLOAD_KIND_BLOB,
            )
            client.send(pb.ClientPacket(write=write))
        _, descriptor = receive(client.sock)
        assert descriptor is not None
        for path in (descriptor, os.open(f"/proc/self/fd/{descriptor}", os.O_RDWR)):
            with pytest.raises(OSError, match=r"not permitted|Invalid argument"):
                os.ftruncate(path, 0)
            with pytest.raises(OSError, match="not permitted"):
                fcntl.fcntl(path, fcntl.F_ADD_SEALS, int(FIXED_SIZE))
            os.close(path)


def test_a_client_can_not_write_to_what_it_reads_even_as_the_daemons_uid(daemon: Daemon) -> None:
    with RawClient(daemon) as client:
        client.read("big")
        _, descriptor = receive(client.sock)
        assert descriptor is not None
        again = os.open(f"/proc/self/fd/{descriptor}", os.O_RDWR)
        with pytest.raises(OSError, match="not permitted"):
            mmap.mmap(again, 1 << 20)
        os.close(again)
        os.close(descriptor)


def kept(daemon: Daemon, count: int) -> list[RawClient]:
    """Get rings, and keep them mapped when their connections are closed."""
    clients = []
    for _ in range(count):
        client = RawClient(daemon)
        clients.append(client)
        client.read("big")
        if client.packet().WhichOneof("packet") == "error":
            break
        client.mapped()
        client.sock.close()
    return clients


def test_a_client_that_keeps_what_it_was_lent_gets_its_share_twice_at_most(tmp_path: Path) -> None:
    """What is mapped can't be taken back, so it counts until the client lets go of it."""
    settings = {"transfer.memory_limit": str(64 << 20), "transfer.wait": "1"}
    with Daemon(tmp_path, settings=settings) as daemon, daemon.connect() as watcher:
        publish(watcher, {"big": BIG})
        clients = kept(daemon, 40)
        assert len(clients) == 2 * 48 // 8 + 1, "the last one was refused"
        assert watcher.state().memory == 48 << 20
        for client in clients:
            client.close()
        until(lambda: watcher.state().memory == 0)
        assert watcher.scope(PACKAGE, COMPONENT, "v").read("big") == BIG


def test_a_ring_counts_as_long_as_anybody_keeps_a_bare_reference_to_it(daemon: Daemon) -> None:
    with daemon.connect() as watcher:
        before = watcher.state().memory
        with RawClient(daemon) as client:
            client.read("big")
            packet, descriptor = client.receive()
            assert packet
            assert descriptor is not None
            size = packet.ring.slots * packet.ring.slot_size
            reference = os.open(f"/proc/self/fd/{descriptor}", os.O_PATH)
            os.close(descriptor)
        until(lambda: memfds(daemon.pid) == 0)
        assert watcher.state().memory >= before + size
        os.close(reference)
        until(lambda: watcher.state().memory == before)


def test_a_slot_that_changes_while_it_is_read_seals_one_state_of_it(daemon: Daemon) -> None:
    """The client scribbles all the time; what was sealed must still open, and be of its bytes."""
    with RawClient(daemon) as client, daemon.connect() as reader:
        transaction = client.start_write("x")
        stop = threading.Event()
        ring = client.rings[-1]

        def scribble() -> None:
            while not stop.is_set():
                for value in (0x11, 0x22):
                    for slot in range(ring.slots):
                        ctypes.memset(ring.address(slot, ring.slot_size), value, ring.slot_size)

        scribbler = threading.Thread(target=scribble)
        scribbler.start()
        offset = 0
        for index in range(ring.slots):
            size = PIECE if index else FIRST_PIECE
            client.piece(index, offset, size, last=index == ring.slots - 1)
            offset += size
        while (packet := client.packet()).WhichOneof("packet") == "free":
            pass
        stop.set()
        scribbler.join()
        assert packet.written.payload.size == offset
        with grpc_door(daemon) as door:
            model = common_pb2.PAYLOAD_KIND_MODEL
            door.payloads.Write(write_steps(transaction, "m", [TINY], kind=model))
        commit = payloads_pb2.CommitRequest(transaction=transaction, payloads=2)
        client.send(pb.ClientPacket(commit=commit))
        assert client.packet().WhichOneof("packet") == "committed"
        assert set(reader.scope(PACKAGE, COMPONENT, "written").read("x")) <= {0, 0x11, 0x22}


def test_half_a_write_is_thrown_away_with_its_client(daemon: Daemon) -> None:
    client = RawClient(daemon)
    client.start_write("half")
    client.fill(0, bytes(FIRST_PIECE))
    client.piece(0, 0, FIRST_PIECE)
    assert list(daemon.store.rglob("half"))
    client.close()
    until(lambda: not list(daemon.store.rglob("half")))


VICTIM = """
import sys, sealcar
client = sealcar.connect(sys.argv[1])
scope = client.scope("m", "c", "v")
print("up", flush=True)
while True:
    scope.read("big")
    with client.begin("m", "c", "w") as transaction:
        transaction.write("blob", bytes(3 << 20), "blob")
        scope.read("small")
"""


def test_clients_killed_at_any_moment_leave_nothing_behind(daemon: Daemon) -> None:
    for moment in range(12):
        victims = [
            subprocess.Popen(
                [sys.executable, "-c", VICTIM, str(daemon.socket)],
                env=environment(),
                stdout=subprocess.PIPE,
            )
            for _ in range(2)
        ]
        for victim in victims:
            assert victim.stdout
            assert victim.stdout.readline() == b"up\n"
        time.sleep(moment * 0.007)
        for victim in victims:
            victim.kill()
            victim.wait()
            assert victim.stdout
            victim.stdout.close()
    with daemon.connect() as client:
        until(lambda: client.state().sessions == 1)
        until(lambda: client.state().transfers == 0 and client.state().memory == 0)
        until(lambda: not list(daemon.store.rglob("blob")))
