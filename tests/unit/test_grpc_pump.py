from __future__ import annotations

import selectors
import socket
import threading
from typing import TYPE_CHECKING

import pytest

from sealcar_server.endpoints.pump import Link

if TYPE_CHECKING:
    from collections.abc import Iterator

MIB = 1 << 20


class Carried:
    """A link between two sockets, pumped by a thread; `client` and `server` are its far ends."""

    def __init__(self) -> None:
        self.client, near = socket.socketpair()
        self.server, inner = socket.socketpair()
        self.selector = selectors.DefaultSelector()
        self.link = Link("name", 1, near, inner, self.selector)
        self.ended = threading.Event()
        self.stopping = False
        self.most = 0
        self.thread = threading.Thread(target=self._run)
        self.thread.start()
        for end in (self.client, self.server):
            end.settimeout(10)

    def _run(self) -> None:
        while not self.stopping:
            for key, events in self.selector.select(0.01):
                if not self.link.move(key.fd, events):
                    self.link.close()
                    self.ended.set()
                    return
                held = sum(len(each.pending) for each in self.link._directions)
                self.most = max(self.most, held)

    def close(self) -> None:
        self.stopping = True
        self.thread.join()
        if not self.ended.is_set():
            self.link.close()
        for end in (self.client, self.server):
            end.close()
        self.selector.close()


@pytest.fixture
def carried() -> Iterator[Carried]:
    carried = Carried()
    yield carried
    carried.close()


def receive(end: socket.socket) -> bytes:
    found = bytearray()
    while piece := end.recv(MIB):
        found += piece
    return bytes(found)


def test_bytes_go_both_ways(carried: Carried) -> None:
    carried.client.sendall(b"question")
    assert carried.server.recv(100) == b"question"
    carried.server.sendall(b"answer")
    assert carried.client.recv(100) == b"answer"


@pytest.mark.parametrize("first", ["client", "server"])
def test_an_end_that_has_said_all_still_hears_the_other(carried: Carried, first: str) -> None:
    ends = (carried.client, carried.server)
    one, other = ends if first == "client" else reversed(ends)
    one.sendall(b"last words")
    one.shutdown(socket.SHUT_WR)
    assert receive(other) == b"last words"
    other.sendall(b"heard")
    assert not carried.ended.is_set()
    other.shutdown(socket.SHUT_WR)
    assert receive(one) == b"heard"
    assert carried.ended.wait(10)


def test_a_reader_that_is_slow_slows_its_writer_and_loses_nothing(carried: Carried) -> None:
    data = bytes(range(256)) * (8 * MIB // 256)

    def send() -> None:
        carried.client.sendall(data)
        carried.client.shutdown(socket.SHUT_WR)

    sender = threading.Thread(target=send)
    sender.start()
    sender.join(0.5)
    assert sender.is_alive()
    assert receive(carried.server) == data
    sender.join(10)
    assert carried.most <= 256 << 10


@pytest.mark.parametrize("gone", ["client", "server"])
def test_an_end_that_breaks_ends_the_other(carried: Carried, gone: str) -> None:
    ends = (carried.client, carried.server)
    one, other = ends if gone == "client" else reversed(ends)
    one.close()
    assert receive(other) == b""
    other.close()
    assert carried.ended.wait(10)


def test_an_end_that_breaks_while_bytes_wait_for_it_is_noticed(carried: Carried) -> None:
    carried.server.settimeout(0.5)
    with pytest.raises(TimeoutError):
        carried.server.sendall(bytes(8 * MIB))
    carried.client.close()
    assert carried.ended.wait(10)
