"""Pieces of one who has a crowd of transfers: how soon workers take them while others ask."""

from __future__ import annotations

import itertools
import threading
import time
from typing import TYPE_CHECKING

from sealcar_server.transfer.crowds import MANY, Crowds
from sealcar_server.transfer.engine import Engine, Token

if TYPE_CHECKING:
    from collections.abc import Collection, Hashable

    from sealcar_server.sealing.scratch import Scratch

PIECE = 0.001


class Company:
    """Whether somebody asks, and what the crowds asked of it."""

    def __init__(self) -> None:
        self.there = True
        self.but: set[Hashable] = set()

    def __call__(self, owner: Hashable, but: Collection[Hashable]) -> bool:
        self.but |= set(but) - {owner}
        return self.there


class Clock:
    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


class Transfer:
    """Counts its pieces, and how many were under way at once in all."""

    under_way = 0
    most = 0
    lock = threading.Lock()

    def __init__(self, owner: str) -> None:
        self.owner, self.pieces = owner, 0

    def work(self, token: Token, scratch: Scratch) -> None:
        del token, scratch
        with self.lock:
            Transfer.under_way += 1
            Transfer.most = max(Transfer.most, Transfer.under_way)
        time.sleep(PIECE)
        with self.lock:
            Transfer.under_way -= 1
            self.pieces += 1


def crowd(engine: Engine, owner: str, transfers: int) -> list[Transfer]:
    found = [Transfer(owner) for _ in range(transfers)]
    for one in found:
        engine.put(one, Token(0))
    Transfer.most = 0
    return found


def done(transfers: list[Transfer]) -> int:
    return sum(one.pieces for one in transfers)


def test_a_crowd_has_a_twentieth_of_one_worker_s_time_beside_others() -> None:
    clock = Clock()
    crowds = Crowds(Company(), clock)
    begun = []
    while clock.now < 101:
        if crowds.rest("one", ()):
            clock.now += PIECE / 100
            continue
        begun.append(clock.now)
        crowds.begin()
        assert crowds.rest("one", ()) > 0, "one at a time"
        clock.now += PIECE
        crowds.end(PIECE)
    assert 0.045 < len(begun) * PIECE <= 0.055
    assert min(later - one for one, later in itertools.pairwise(begun)) > PIECE * 19.5


def test_a_crowd_alone_never_waits() -> None:
    company = Company()
    company.there = False
    crowds = Crowds(company, Clock())
    for _ in range(100):
        assert crowds.rest("one", ()) == 0
        crowds.begin()
        crowds.end(PIECE)


def test_after_a_piece_that_took_long_a_crowd_waits_for_a_short_time_all_the_same() -> None:
    crowds = Crowds(Company(), Clock())
    crowds.begin()
    crowds.end(10.0)
    assert 0 < crowds.rest("one", ()) <= 0.1


def test_beside_others_one_worker_serves_a_crowd_and_others_are_served_meanwhile() -> None:
    company = Company()
    # no time passes: the rest after the first piece has no end while there is company
    engine = Engine(4, Crowds(company, Clock()))
    many = crowd(engine, "many", 100)
    engine.start()
    while not done(many):
        time.sleep(PIECE)
    few = crowd(engine, "few", 8)
    while done(few) < len(few):
        time.sleep(PIECE)
    assert done(many) == 1
    company.there = False
    while done(many) < len(many):
        time.sleep(PIECE)
    engine.close()


def test_nobody_who_has_a_few_transfers_waits_beside_others() -> None:
    engine = Engine(4, Crowds(Company()))
    few = crowd(engine, "few", MANY)
    engine.start()
    engine.close()
    assert done(few) == MANY
    assert Transfer.most > 1


def test_two_crowds_are_no_company_for_each_other() -> None:
    company = Company()
    engine = Engine(1, Crowds(company))
    crowd(engine, "one", 40)
    crowd(engine, "two", 40)
    engine.start()
    while not company.but:
        time.sleep(PIECE)
    company.there = False
    engine.close()
    assert company.but == {"one", "two"}


def test_who_has_a_few_transfers_waiting_is_no_company_for_a_crowd_but_has_every_other_turn() -> (
    None
):
    # asks for something small too, all the time, but for what it has pieces waiting
    engine = Engine(1, Crowds(lambda _owner, but: "few" not in but))
    many = crowd(engine, "many", 100)
    few = crowd(engine, "few", MANY)
    engine.start()
    while done(few) < len(few):
        time.sleep(PIECE)
    served = done(many)
    engine.close()
    assert MANY // 2 <= served <= MANY * 2


def test_what_waits_of_a_crowd_is_done_before_the_end() -> None:
    engine = Engine(2, Crowds(Company()))
    many = crowd(engine, "many", 100)
    engine.start()
    time.sleep(PIECE * 10)
    begun = time.monotonic()
    engine.close()
    assert done(many) == 100
    # two workers at once, and no rests any more
    assert time.monotonic() - begun < 100 * PIECE * 4
