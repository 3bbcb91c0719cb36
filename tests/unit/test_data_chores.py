from __future__ import annotations

import functools
import threading

import pytest

from sealcar_server.endpoints.data_chores import Chores

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
