from __future__ import annotations

import threading
import time

import pytest

from sealcar.errors import KeyRefusedError, KeyUnavailableError
from sealcar_server.keys.bounded import Bounded


def test_what_a_call_returns_or_raises_is_what_the_caller_gets() -> None:
    bounded = Bounded("the token", 5)
    assert bounded(lambda: 7) == 7

    def refuse() -> None:
        raise KeyRefusedError("no")

    with pytest.raises(KeyRefusedError, match="no"):
        bounded(refuse)


def test_a_call_that_hangs_is_given_up_and_the_next_one_served() -> None:
    bounded = Bounded("the token", 0.2)
    release = threading.Event()
    start = time.monotonic()
    with pytest.raises(
        KeyUnavailableError, match=r"the token doesn't answer within 0\.2 s"
    ) as late:
        bounded(release.wait)
    assert time.monotonic() - start < 1
    assert late.value.retry_after == 0.2
    assert bounded(lambda: 1) == 1
    release.set()


def test_calls_that_hang_take_a_bounded_number_of_threads() -> None:
    bounded = Bounded("the token", 0.02)
    release = threading.Event()
    before = threading.active_count()
    for _ in range(40):
        with pytest.raises(KeyUnavailableError):
            bounded(release.wait)
    assert threading.active_count() - before <= 16
    release.set()
    end = time.monotonic() + 5
    while threading.active_count() > before and time.monotonic() < end:
        time.sleep(0.01)
    assert bounded(lambda: 1) == 1
