from __future__ import annotations

import contextlib
import gc
import os
import socket
import sys
import threading
import weakref
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from support.raw_streams import framed

from sealcar.errors import DeniedError, InvalidRequestError, UnavailableError
from sealcar.v1 import data_socket_pb2 as pb
from sealcar_server.access.peers import peer_of
from sealcar_server.endpoints.data_packets import OneSender, name_senders
from sealcar_server.endpoints.data_turns import ViolationError
from sealcar_server.endpoints.stream_in import Inflow
from sealcar_server.endpoints.stream_out import Outflow
from sealcar_server.transfer.rings import SLOTS, Ring

if TYPE_CHECKING:
    from collections.abc import Iterator

STATE = pb.ClientPacket(state=pb.StateRequest()).SerializeToString()


class Meter:
    def __init__(self) -> None:
        self.rules: list[str] = []

    def denied(self, rule: str) -> None:
        self.rules.append(rule)

    def moved(self, *_: object) -> None: ...
    def spent(self, *_: object) -> None: ...
    def transferred(self, *_: object) -> None: ...
    def shared(self, *_: object) -> None: ...


@pytest.fixture
def ends() -> Iterator[tuple[socket.socket, socket.socket]]:
    near, far = socket.socketpair(socket.AF_UNIX, socket.SOCK_STREAM)
    name_senders(near)
    near.settimeout(0)
    far.settimeout(10)
    with near, far:
        yield near, far


@pytest.fixture
def ring() -> Iterator[Ring]:
    with Ring(client_writes=True, shared=False) as made:
        yield made


def inflow(sock: socket.socket, meter: Meter | None = None) -> Inflow:
    peer = peer_of(sock, "default")
    sender = OneSender(sock, peer)
    peer.close()
    weakref.finalize(sock, sender.close)
    return Inflow(sock, sender, meter or Meter())


def piece(size: int, slot: int = 0) -> bytes:
    packet = pb.ClientPacket(piece=pb.Piece(slot=slot, size=size))
    return framed(packet.SerializeToString())


def test_a_message_is_taken_when_its_last_byte_has_come(
    ends: tuple[socket.socket, socket.socket],
) -> None:
    near, far = ends
    taken = inflow(near)
    for byte in framed(STATE):
        with pytest.raises(BlockingIOError):
            taken.next()
        far.send(bytes([byte]))
    assert taken.next().HasField("state")
    far.close()
    with pytest.raises(EOFError):
        taken.next()


def test_the_bytes_of_a_piece_lie_in_a_slot_of_the_daemons_choice(
    ends: tuple[socket.socket, socket.socket], ring: Ring
) -> None:
    near, far = ends
    taken = inflow(near)
    taken.begin(ring)
    far.sendall(piece(5, slot=4000) + b"first" + piece(6) + b"second" + piece(0) + framed(STATE))
    first, second, empty = (taken.next().piece for _ in range(3))
    assert [first.slot, second.slot, empty.slot] == [0, 1, 2]
    assert ring._map[:5] == b"first"
    at = ring.address(1) - ring.address(0)
    assert ring._map[at : at + 6] == b"second"
    assert taken.next().HasField("state")


def test_what_has_no_slot_waits_until_one_is_free(
    ends: tuple[socket.socket, socket.socket], ring: Ring
) -> None:
    near, far = ends
    taken = inflow(near)
    taken.begin(ring)
    far.sendall((piece(1) + b"x") * (SLOTS + 1))
    for _ in range(SLOTS):
        taken.next()
    with pytest.raises(BlockingIOError):
        taken.next()
    assert taken.blocked
    taken.free(3)
    assert not taken.blocked
    assert taken.next().piece.slot == 3


def test_only_one_process_may_send_and_no_descriptors(
    ends: tuple[socket.socket, socket.socket],
) -> None:
    near, far = ends
    meter = Meter()
    child = os.fork()
    if not child:
        far.send(framed(STATE))
        os._exit(0)
    os.waitpid(child, 0)
    with pytest.raises(DeniedError, match="only the process that connected"):
        inflow(near, meter).next()
    assert meter.rules == ["peer"]
    near.recv(1000)
    socket.send_fds(far, [framed(STATE)], [0])
    with pytest.raises(DeniedError, match="descriptors"):
        inflow(near).next()


@pytest.mark.parametrize("data", [bytes(4), b"\xff" * 4, framed(b"\xff"), piece(1 << 21)])
def test_what_can_not_be_is_refused(
    ends: tuple[socket.socket, socket.socket], ring: Ring, data: bytes
) -> None:
    near, far = ends
    taken = inflow(near)
    taken.begin(ring)
    far.sendall(data)
    with pytest.raises(InvalidRequestError):
        taken.next()


def test_a_piece_before_there_is_a_ring_is_out_of_turn(
    ends: tuple[socket.socket, socket.socket],
) -> None:
    near, far = ends
    far.sendall(piece(1))
    with pytest.raises(ViolationError):
        inflow(near).next()


def test_a_piece_between_two_writes_is_out_of_turn_before_its_bytes_come(
    ends: tuple[socket.socket, socket.socket], ring: Ring
) -> None:
    near, far = ends
    taken = inflow(near)
    taken.begin(ring)
    far.sendall(piece(1) + b"x")
    taken.next()
    taken.end()
    far.sendall(piece(1))
    with pytest.raises(ViolationError):
        taken.next()


def test_the_slots_of_a_stream_are_not_the_clients_to_give_back(
    ends: tuple[socket.socket, socket.socket], ring: Ring
) -> None:
    near, far = ends
    taken = inflow(near)
    taken.begin(ring)
    far.sendall(framed(pb.ClientPacket(free=pb.Free(slots=[0])).SerializeToString()))
    with pytest.raises(ViolationError):
        taken.next()


def test_a_ring_that_is_given_up_in_mid_piece_stays_until_that_has_come(
    ends: tuple[socket.socket, socket.socket],
) -> None:
    near, far = ends
    taken = inflow(near)
    with Ring(client_writes=True, shared=False) as given_up:
        at = given_up.address(0)
        taken.begin(given_up)
        far.sendall(piece(5) + b"fir")
        with pytest.raises(BlockingIOError):
            taken.next()
    del given_up
    assert mapped(at), "or the bytes would go wherever something else is mapped by then"
    far.sendall(b"st")
    assert taken.next().piece.size == 5
    taken.end()
    gc.collect()  # what pytest.raises remembers
    assert not mapped(at)


def mapped(address: int) -> bool:
    for line in Path("/proc/self/maps").read_text().splitlines():
        begin, end = (int(part, 16) for part in line.split()[0].split("-"))
        if begin <= address < end:
            return True
    return False


def received(sock: socket.socket, size: int) -> bytes:
    got = b""
    while len(got) < size:
        got += sock.recv(size - len(got))
    return got


def test_a_slot_comes_back_when_its_last_byte_is_sent(
    ends: tuple[socket.socket, socket.socket],
) -> None:
    near, far = ends
    back: list[int] = []
    out = Outflow(near, back.append)
    data = os.urandom(4 << 20)
    out.put(b"head", memoryview(data), slot=6)
    got = b""
    while out.waiting:
        assert not back
        out.push()
        got += far.recv(8 << 20)
    assert back == [6]
    assert got + received(far, len(data) + 8 - len(got)) == framed(b"head") + data


def test_pieces_that_are_dropped_leave_zeros_at_most(
    ends: tuple[socket.socket, socket.socket],
) -> None:
    near, far = ends
    back: list[int] = []
    out = Outflow(near, back.append)
    secret = b"s" * (4 << 20)
    for slot in range(3):
        out.put(b"head", memoryview(secret), slot=slot)
    out.push()
    out.drop_pieces()
    assert sorted(back) == [0, 1, 2]
    out.put(b"an error")
    told = b""
    while out.waiting:
        told += far.recv(8 << 20)
        out.push()
    told += received(far, len(secret) + 8 + 12 - len(told))
    assert told.startswith(framed(b"head"))
    assert told.endswith(framed(b"an error"))
    assert told[8:-12].rstrip(b"\0").strip(b"s") == b"", "one piece, cut"
    assert len(told[8:-12].rstrip(b"\0")) < len(secret)
    assert sorted(back) == [0, 1, 2], "once each"


def test_who_does_not_receive_is_not_sent_messages_without_end(
    ends: tuple[socket.socket, socket.socket],
) -> None:
    near, _ = ends
    out = Outflow(near, lambda _slot: None)
    kept: list[bytes] = []

    def say() -> None:
        while len(kept) < 100:
            out.put(bytes(60_000))
            out.push()
            kept.append(b"")

    with pytest.raises(UnavailableError, match="doesn't receive"):
        say()
    assert len(kept) * 60_000 < 2 << 20, "what the kernel takes, and little more"


def test_pieces_are_dropped_once_each_while_workers_bring_more(
    ends: tuple[socket.socket, socket.socket],
) -> None:
    near, _ = ends
    returned: list[int] = []
    out = Outflow(near, returned.append)
    put: list[int] = []
    failed: list[BaseException] = []

    def bring() -> None:
        try:
            for slot in range(20_000):
                with contextlib.suppress(UnavailableError):
                    out.put(b"piece", memoryview(b"x"), slot=slot)
                    put.append(slot)
        except BaseException as error:  # noqa: BLE001  (told to the test's own thread)
            failed.append(error)

    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        worker = threading.Thread(target=bring)
        worker.start()
        while worker.is_alive():
            out.drop_pieces()
        worker.join()
    finally:
        sys.setswitchinterval(interval)
    out.drop_pieces()
    assert not failed
    assert returned == put
    assert not out.waiting
