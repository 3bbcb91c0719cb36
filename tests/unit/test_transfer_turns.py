from __future__ import annotations

import threading
from collections import Counter
from typing import TYPE_CHECKING

import pytest

from sealcar_server.sealing.layout import SEGMENT
from sealcar_server.transfer.budget import Budget, Lease
from sealcar_server.transfer.engine import Engine, Token
from sealcar_server.transfer.rings import SIZE, SLOTS, slots_for
from sealcar_server.transfer.turns import Turns

if TYPE_CHECKING:
    from sealcar_server.sealing.scratch import Scratch


def test_owners_take_turns_and_so_do_the_transfers_of_one() -> None:
    turns: Turns[str, int] = Turns()
    for token in range(8):
        turns.put("one", "wide", token)
    for token in range(2):
        turns.put("one", "narrow", token)
    turns.put("other", "only", 0)
    assert len(turns) == 11
    order = [turns.take() for _ in range(11)]
    assert order[:5] == [("wide", 0), ("only", 0), ("narrow", 0), ("wide", 1), ("narrow", 1)]
    assert order[5:] == [("wide", token) for token in range(2, 8)]
    with pytest.raises(LookupError):
        turns.take()
    turns.put("one", "wide", 9)
    assert turns.take() == ("wide", 9)


def test_a_transfer_is_alone_while_nothing_waits_but_its_own() -> None:
    turns: Turns[str, int] = Turns()
    assert turns.alone("one", "wide")
    turns.put("one", "wide", 0)
    assert turns.alone("one", "wide")
    assert not turns.alone("one", "narrow"), "another one of the same owner waits"
    assert not turns.alone("other", "only")
    turns.put("other", "only", 0)
    assert not turns.alone("one", "wide")


class _Transfer:
    """A job whose tokens come back, as a client's slots do."""

    def __init__(self, engine: Engine, owner: str, done: threading.Event) -> None:
        self.owner, self._engine, self._over = owner, engine, done
        self.pieces = 0

    def work(self, token: Token, scratch: Scratch) -> None:
        del scratch
        self.pieces += 1
        if not self._over.is_set():
            self._engine.put(self, token)


def test_who_has_one_slot_progresses_like_who_has_eight() -> None:
    engine, over = Engine(1), threading.Event()
    transfers = {slots: _Transfer(engine, "one", over) for slots in (1, 2, 4, 8)}
    for slots, transfer in transfers.items():
        for slot in range(slots):
            engine.put(transfer, Token(slot))
    engine.start()
    while transfers[8].pieces < 500:
        pass
    over.set()
    engine.close()
    counts = [transfer.pieces for transfer in transfers.values()]
    assert max(counts) - min(counts) <= SLOTS + 1


def test_rings_get_smaller_the_more_there_are_and_hundreds_of_mib_hold_64() -> None:
    budget = Budget(256 << 20)
    leases: list[Lease] = []
    sizes: list[int] = []
    for _ in range(64):
        slots = slots_for(budget, "one")
        sizes.append(slots)
        budget.ask("one", slots * SEGMENT, leases.append)
    assert len(leases) == 64, "nobody waits"
    assert sizes == sorted(sizes, reverse=True)
    assert Counter(sizes)[SLOTS] >= 8
    assert sizes[-1] >= 1
    assert slots_for(budget, "other") < SLOTS, "what is left is for all"
    for lease in leases:
        lease.close()
    assert slots_for(budget, "one") == SLOTS


def test_a_small_budget_holds_whole_rings_and_the_others_wait() -> None:
    budget = Budget(4 * SIZE)
    granted: list[Lease] = []
    for _ in range(4):
        assert slots_for(budget, "one") == SLOTS
        budget.ask("one", SIZE, granted.append)
    assert len(granted) == 3
