from __future__ import annotations

import functools
import threading
import time
from typing import TYPE_CHECKING

import pytest

from sealcar_server.access.shares import Shares
from sealcar_server.endpoints.data_chores import Chores

if TYPE_CHECKING:
    from collections.abc import Hashable

MANY = 50


@pytest.fixture
def blocked() -> threading.Event:
    return threading.Event()


def test_who_waits_for_ever_holds_up_nobody_else(blocked: threading.Event) -> None:
    chores = Chores()
    served = threading.Event()

    def wait() -> None:
        blocked.wait(60)

    for _ in range(MANY):
        chores.put("slow", wait)
    chores.put("quick", served.set)
    try:
        assert served.wait(10)
    finally:
        blocked.set()
        chores.close()


def test_all_that_is_queued_is_done_before_the_end(blocked: threading.Event) -> None:
    chores = Chores()
    done: list[int] = []

    def wait(number: int) -> None:
        blocked.wait(60)
        done.append(number)

    for number in range(MANY):
        chores.put("one", functools.partial(wait, number))
    blocked.set()
    chores.close()
    assert sorted(done) == list(range(MANY))


def test_of_one_owner_one_chore_computes_at_a_time_and_those_that_wait_hold_up_none() -> None:
    chores = Chores()
    both = threading.Barrier(2)
    order: list[str] = []

    def wait() -> None:
        # two that wait for each other get together, though one owner's are begun one by one
        both.wait(10)
        order.append("met")

    chores.put("one", wait)
    chores.put("one", wait)
    for number in range(100):
        chores.put("one", functools.partial(order.append, str(number)))
    chores.close()
    assert order.count("met") == 2
    assert {*order} == {"met", *map(str, range(100))}


def test_owners_take_turns_however_much_one_has_queued() -> None:
    chores = Chores()
    begin = threading.Event()
    done: list[str] = []

    def wait() -> None:
        begin.wait(10)

    for _ in range(8):
        chores.put(object(), wait)
    for _ in range(100):
        chores.put("many", functools.partial(done.append, "many"))
    chores.put("one", functools.partial(done.append, "one"))
    begin.set()
    chores.close()
    assert done.index("one") < 20


def test_who_waits_for_something_has_his_next_chore_begun_however_long_a_flood_rests() -> None:
    class Resting(Shares):
        def begin(self, owner: Hashable) -> float:
            return 60.0 if owner == "flood" and not over.is_set() else 0.0

    over, second = threading.Event(), threading.Event()
    met: list[bool] = []
    chores = Chores(Resting(10))
    chores.put("flood", lambda: None)
    # the one who watches the time begins to
    time.sleep(0.05)
    chores.put("uid 2", lambda: met.append(second.wait(10)))
    chores.put("uid 2", second.set)
    assert second.wait(10)
    over.set()
    chores.close()
    assert met == [True]
