"""Turns at the data socket: one of each caller after the other."""

from __future__ import annotations

import select
import socket
from functools import partial
from typing import TYPE_CHECKING

import pytest

from sealcar_server.endpoints.data_watch import Watch

if TYPE_CHECKING:
    from collections.abc import Iterator


@pytest.fixture
def watch() -> Iterator[Watch]:
    watch = Watch()
    yield watch
    watch.close()


class Line:
    """A connection whose packets are read one a turn."""

    def __init__(self, watch: Watch, owner: str, read: list[str]) -> None:
        self.ours, self.theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self._owner, self._read = owner, read
        watch.add(self.ours.fileno(), owner, self.readable)

    def readable(self) -> None:
        self._read.append(f"{self._owner}{self.ours.recv(10).decode()}")

    def send(self, *packets: str) -> None:
        for packet in packets:
            self.theirs.send(packet.encode())

    def close(self) -> None:
        self.ours.close()
        self.theirs.close()


@pytest.fixture
def read() -> list[str]:
    return []


def take(watch: Watch, turns: int) -> None:
    for _ in range(turns):
        for call in watch.turns(0, 1):
            call()


def test_many_connections_of_one_are_no_more_turns_than_another_s_one(
    watch: Watch, read: list[str]
) -> None:
    crowd = [Line(watch, "a", read) for _ in range(20)]
    other = Line(watch, "b", read)
    for each in crowd:
        each.send("1", "2")
    take(watch, 3)
    other.send("1", "2", "3")
    take(watch, 6)
    assert sorted(read[3:9]) == ["a1", "a1", "a1", "b1", "b2", "b3"]
    take(watch, 100)
    assert len(read) == 43
    for each in (*crowd, other):
        each.close()


def test_what_no_descriptor_tells_of_has_its_owner_s_turns_too(
    watch: Watch, read: list[str]
) -> None:
    other = Line(watch, "b", read)
    for number in range(20):
        watch.give_turn("a", partial(read.append, f"a{number}"))
    other.send("1", "2")
    take(watch, 6)
    assert read == ["a0", "b1", "a1", "b2", "a2", "a3"]
    other.close()


def test_who_is_armed_again_before_its_turn_has_one_turn(watch: Watch) -> None:
    calls: list[int] = []
    ours, theirs = socket.socketpair()
    with ours, theirs:
        watch.give_turn("a", lambda: None)
        watch.give_turn("a", lambda: None)
        watch.add(ours.fileno(), "a", lambda: calls.append(1), events=0)
        for _ in range(2):
            watch.arm(ours.fileno(), select.EPOLLOUT)
            take(watch, 1)
        take(watch, 5)
        watch.remove(ours.fileno())
    assert len(calls) == 1


def test_who_is_watched_no_longer_has_no_turn_though_his_number_is_used_again(
    watch: Watch, read: list[str]
) -> None:
    first, gone = (Line(watch, owner, read) for owner in "ab")
    first.send("1")
    gone.send("1")
    number = gone.ours.fileno()
    take(watch, 1)
    watch.remove(number)
    gone.close()
    again = Line(watch, "c", read)
    again.send("1")
    take(watch, 5)
    assert read == ["a1", "c1"]
    watch.remove(number)
    watch.remove(number)
    for each in (first, again):
        each.close()


def test_what_removes_itself_in_its_turn_is_not_watched_again(watch: Watch) -> None:
    ours, theirs = socket.socketpair()
    with ours, theirs:
        watch.add(ours.fileno(), "a", partial(watch.remove, ours.fileno()))
        theirs.send(b"x")
        take(watch, 3)
        assert not list(watch.turns(0, 1))


def test_results_take_turns_with_packets_and_those_of_one_with_another_s(
    watch: Watch, read: list[str]
) -> None:
    for number in range(10):
        watch.give_turn("a", partial(read.append, f"a{number}"))
    other = Line(watch, "b", read)
    other.send("1")
    watch.give_turn("c", partial(read.append, "c0"))
    take(watch, 4)
    assert read[0] == "a0"
    assert sorted(read[1:]) == ["a1", "b1", "c0"]
    other.close()


def test_at_the_end_what_was_given_a_turn_is_called_once_and_no_descriptor_is_looked_at(
    watch: Watch, read: list[str]
) -> None:
    line = Line(watch, "b", read)
    line.send("1")
    for owner in "ab":
        watch.give_turn(owner, partial(read.append, f"{owner}0"))
    take(watch, 1)
    for call in watch.given():
        call()
    assert sorted(read) == ["a0", "b0"]
    assert not list(watch.given())
    line.close()
