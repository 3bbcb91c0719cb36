"""Who connects to the data socket waits for his turn, and who hangs up before it takes none."""

from __future__ import annotations

import os
import socket
from typing import TYPE_CHECKING

import pytest

from sealcar_server.endpoints.data_accepting import Newcomers

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from sealcar_server.access.principal import Principal

OF_ONE = 3
ACCOUNT = f"uid {os.geteuid()}"


class Door:
    """A listener, and what comes of those who connect."""

    def __init__(self, path: Path) -> None:
        self.listener = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self.listener.bind(str(path))
        self.listener.listen(64)
        self.listener.settimeout(0)
        self.turns: list[tuple[str, Callable[[], None]]] = []
        self.refused: list[tuple[str, str]] = []
        self.admitted: list[socket.socket] = []
        self._path = path
        self._newcomers = Newcomers(OF_ONE, self._turn, self._refuse)

    def _turn(self, account: str, call: Callable[[], None]) -> None:
        self.turns.append((account, call))

    def _refuse(self, principal: Principal, limit: str) -> None:
        self.refused.append((principal.account, limit))

    def _admit(self, name: str, sock: socket.socket) -> None:
        assert name == "default"
        self.admitted.append(sock)

    def connect(self) -> socket.socket:
        sock = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        sock.connect(str(self._path))
        return sock

    def accept_all(self) -> None:
        while True:
            try:
                self._newcomers.accept(self.listener, "default", self._admit)
            except BlockingIOError:
                return

    def take_turns(self) -> None:
        turns, self.turns = self.turns, []
        for account, call in turns:
            assert account == ACCOUNT
            call()


@pytest.fixture
def door(tmp_path: Path) -> Iterator[Door]:
    door = Door(tmp_path / "sock")
    yield door
    for sock in (door.listener, *door.admitted):
        sock.close()


def test_who_stays_is_taken_in_when_his_turn_comes_and_not_before(door: Door) -> None:
    with door.connect():
        door.accept_all()
        assert not door.admitted
        door.take_turns()
        assert len(door.admitted) == 1


def test_who_hung_up_takes_no_turn(door: Door) -> None:
    for _ in range(40):
        door.connect().close()
    door.accept_all()
    assert not door.turns
    assert not door.refused


def test_who_sent_something_and_hung_up_is_taken_in(door: Door) -> None:
    with door.connect() as sock:
        sock.send(b"something")
    door.accept_all()
    door.take_turns()
    assert door.admitted[0].recv(100) == b"something"


def test_no_more_of_one_wait_than_he_may_have_and_the_others_are_closed(door: Door) -> None:
    socks = [door.connect() for _ in range(OF_ONE + 2)]
    door.accept_all()
    assert len(door.turns) == OF_ONE
    assert door.refused == [(ACCOUNT, "connections")] * 2
    assert socks[OF_ONE].recv(100) == b""
    door.take_turns()
    socks.append(door.connect())
    door.accept_all()
    assert len(door.turns) == 1, "those who were taken in wait no more"
    door.take_turns()
    for sock in socks:
        sock.close()
