"""How much time callers have who ask without pause while others ask too."""

from __future__ import annotations

from functools import partial

import pytest

from sealcar_server.access.shares import Shares
from sealcar_server.endpoints.data_chores import Chores
from sealcar_server.endpoints.data_watch import Watch

STEP = 0.0005
PERCENT = 10


class Clock:
    """Time that passes when it is told to."""

    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def shares(clock: Clock) -> Shares:
    return Shares(PERCENT, clock)


class Caller:
    """One who has always something to be done, or only now and then."""

    def __init__(self, shares: Shares, clock: Clock, account: str) -> None:
        self._shares, self._clock, self.account = shares, clock, account
        self.begun: list[float] = []

    def step(self, seconds: float = STEP) -> bool:
        """Have a step made if it may be now, and tell whether it was."""
        if self._shares.begin(self.account):
            return False
        self.begun.append(self._clock.now)
        self._clock.now += seconds
        self._shares.end(self.account, seconds)
        return True

    def rest(self) -> float:
        return self._shares.rest(self.account)


def flooding(shares: Shares, clock: Clock, *accounts: str) -> list[Caller]:
    """Return some who have been asking without pause for seconds, and nobody else has."""
    callers = [Caller(shares, clock, account) for account in accounts]
    end = clock.now + 3
    while clock.now < end:
        if sum(caller.step() for caller in callers) == 0:
            clock.now += 0.0001
    for caller in callers:
        caller.begun.clear()
    return callers


@pytest.fixture
def flood(shares: Shares, clock: Clock) -> Caller:
    caller = flooding(shares, clock, "uid 1")[0]
    clock.now += 0.01
    return caller


def company(flooding: list[Caller], other: Caller, clock: Clock, seconds: float) -> None:
    """Let time pass in which one asks every millisecond, and others whenever they may."""
    end, due = clock.now + seconds, clock.now
    while clock.now < end:
        if clock.now >= due:
            assert other.step(STEP / 5), "who asks now and then never waits"
            due = clock.now + 0.001
        elif sum(one.step() for one in flooding) == 0:
            clock.now += 0.0001


def test_who_is_alone_never_rests(flood: Caller) -> None:
    assert all(flood.step() for _ in range(10_000))


def test_beside_another_one_who_floods_has_his_share_and_the_other_never_waits(
    flood: Caller, shares: Shares, clock: Clock
) -> None:
    company([flood], Caller(shares, clock, "uid 2"), clock, 2)
    share = len(flood.begun) * STEP / 2
    assert PERCENT / 100 * 0.8 < share <= PERCENT / 100


def test_what_a_flood_has_comes_one_by_one_and_never_at_once(
    flood: Caller, shares: Shares, clock: Clock
) -> None:
    company([flood], Caller(shares, clock, "uid 2"), clock, 2)
    gaps = [later - one for one, later in zip(flood.begun, flood.begun[1:], strict=False)]
    # by a cent more or less: time is summed up in small pieces
    assert min(gaps) > STEP * 100 / PERCENT * 0.99


def test_two_who_flood_share_what_one_would_have(shares: Shares, clock: Clock) -> None:
    both = flooding(shares, clock, "uid 1", "uid 3")
    company(both, Caller(shares, clock, "uid 2"), clock, 2)
    shares_of_each = [len(one.begun) * STEP / 2 for one in both]
    assert PERCENT / 100 * 0.8 < sum(shares_of_each) <= PERCENT / 100


def test_two_who_flood_are_no_company_for_each_other(shares: Shares, clock: Clock) -> None:
    first, second = flooding(shares, clock, "uid 1", "uid 3")
    for _ in range(1000):
        assert first.step()
        assert second.step()


def test_a_model_of_hundreds_of_payloads_loads_without_a_rest(shares: Shares, clock: Clock) -> None:
    other, loading = Caller(shares, clock, "uid 2"), Caller(shares, clock, "uid 1")
    for _ in range(200):
        assert other.step(STEP / 5)
        assert loading.step()


def test_company_ends_soon_after_the_last_request(
    flood: Caller, shares: Shares, clock: Clock
) -> None:
    Caller(shares, clock, "uid 2").step()
    assert flood.step()
    assert not flood.step()
    clock.now += 0.1
    assert all(flood.step() for _ in range(100))


def test_who_made_a_pause_floods_no_more(flood: Caller, shares: Shares, clock: Clock) -> None:
    clock.now += 1
    Caller(shares, clock, "uid 2").step()
    assert all(flood.step() for _ in range(100))


def test_while_a_step_is_under_way_no_other_one_of_a_flood_begins(
    flood: Caller, shares: Shares, clock: Clock
) -> None:
    Caller(shares, clock, "uid 2").step()
    assert shares.begin(flood.account) == 0
    clock.now += STEP
    assert shares.begin(flood.account) > 0


def test_after_a_long_step_a_flood_rests_for_a_short_time_all_the_same(
    flood: Caller, shares: Shares, clock: Clock
) -> None:
    Caller(shares, clock, "uid 2").step()
    shares.end(flood.account, 5.0)
    assert 0 < shares.begin(flood.account) <= 0.1


def test_at_a_hundred_percent_no_difference_is_made(clock: Clock) -> None:
    shares = Shares(100, clock)
    flood, other = Caller(shares, clock, "uid 1"), Caller(shares, clock, "uid 2")
    for _ in range(10_000):
        assert flood.step()
        assert other.step(STEP / 5)


def test_whoever_asks_now_and_then_is_company_but_none_who_floods_or_does_not_count(
    flood: Caller, shares: Shares, clock: Clock
) -> None:
    assert not shares.accompanied("uid 2"), "one who floods is none"
    Caller(shares, clock, "uid 2").step(STEP / 5)
    assert shares.accompanied(flood.account)
    assert not shares.accompanied("uid 2"), "nobody is his own"
    assert not shares.accompanied(flood.account, {"uid 2"})
    clock.now += 0.2
    assert not shares.accompanied(flood.account)


def test_what_the_daemon_does_for_itself_never_waits(shares: Shares) -> None:
    for _ in range(10_000):
        assert shares.begin(None) == 0
        shares.end(None, STEP)


def test_a_flood_of_callers_takes_no_memory(shares: Shares, clock: Clock) -> None:
    for number in range(10_000):
        Caller(shares, clock, f"uid {number}").step()
    assert len(shares._taken) == 4096


def test_at_the_socket_whose_owner_rests_has_no_turn_and_keeps_nobody_else_from_one(
    flood: Caller, shares: Shares, clock: Clock
) -> None:
    watch = Watch(shares)
    called: list[str] = []
    for owner in (flood.account, flood.account, "uid 2", flood.account, "uid 2"):
        watch.give_turn(owner, partial(called.append, owner))
    for _ in range(5):
        for call in watch.turns(5, 1):
            call()
    assert called == [flood.account, "uid 2", "uid 2"]
    clock.now += 0.2
    for call in watch.turns(5, 2):
        call()
    assert called[3:] == [flood.account] * 2
    watch.close()


def test_chores_of_one_who_rests_wait_and_those_of_others_do_not(
    flood: Caller, shares: Shares, clock: Clock
) -> None:
    Caller(shares, clock, "uid 2").step()
    assert flood.step(1e-3)
    chores = Chores(shares)
    done: list[str] = []
    chores.put(flood.account, lambda: done.append("flood"))
    chores.put("uid 2", lambda: done.append("other"))
    while "other" not in done:
        pass
    assert done == ["other"]
    clock.now += 0.2
    chores.close()
    assert done == ["other", "flood"]
