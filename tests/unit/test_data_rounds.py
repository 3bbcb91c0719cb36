"""Looking after connections: a few at a time, and one round after the other."""

from __future__ import annotations

from collections import deque
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

from sealcar_server.endpoints.data_rounds import Rounds
from sealcar_server.endpoints.data_turns import Phase

if TYPE_CHECKING:
    from collections.abc import Callable


class Visited:
    """A connection that counts visits."""

    def __init__(self) -> None:
        self.visits = self.closed = 0
        self.operation = SimpleNamespace(renew=self._renew)
        self.phase, self.since, self.holds_transaction = Phase.IDLE, 0.0, False
        self.rings = SimpleNamespace(count=1)
        self.renewals = 0

    def check_patience(self, now: float) -> None:
        assert now > 0
        self.visits += 1

    def close(self, reason: object) -> None:
        assert reason is None
        self.closed += 1

    def _renew(self) -> None:
        self.renewals += 1


def _rounds(
    connections: set[Any], *, contended: bool = False, used: int = 1
) -> tuple[Rounds, deque[Callable[[], None]], list[str]]:
    looked: list[str] = []
    door: Any = SimpleNamespace(
        outstanding=SimpleNamespace(look=lambda: looked.append("outstanding")),
        shelf=SimpleNamespace(look=lambda: looked.append("shelf")),
        remains=SimpleNamespace(look=lambda: looked.append("remains")),
        spare=SimpleNamespace(prepare=lambda: looked.append("spare")),
        services=SimpleNamespace(budget=SimpleNamespace(contended=contended, used=used)),
    )
    turns: deque[Callable[[], None]] = deque()
    return Rounds(door, connections, turns.append), turns, looked


def test_a_round_is_many_turns_of_a_few_connections_each_and_visits_all() -> None:
    connections = {Visited() for _ in range(50)}
    rounds, turns, looked = _rounds(connections)
    rounds.begin()
    assert not any(one.visits for one in connections), "nothing at once"
    before = 0
    while turns:
        turns.popleft()()
        visited = sum(one.visits for one in connections)
        assert visited - before <= 4
        before = visited
    assert all(one.visits == one.renewals == 1 for one in connections)
    assert looked == ["outstanding", "shelf", "remains"]
    assert not any(one.closed for one in connections), "nobody waits for memory"


def test_a_ring_is_made_ahead_only_while_nobody_has_one() -> None:
    for used, made in ((0, True), (1, False)):
        rounds, turns, looked = _rounds(set(), used=used)
        rounds.begin()
        while turns:
            turns.popleft()()
        assert ("spare" in looked) is made


def test_a_round_begins_when_the_last_one_is_over() -> None:
    rounds, turns, _ = _rounds({Visited()})
    rounds.begin()
    waiting = len(turns)
    turns.popleft()()
    rounds.begin()
    assert len(turns) == waiting - 1
    while turns:
        turns.popleft()()
    rounds.begin()
    assert len(turns) == waiting


def test_while_somebody_waits_for_memory_idle_rings_are_given_back() -> None:
    idle, busy, holding = Visited(), Visited(), Visited()
    busy.phase, holding.holds_transaction = Phase.MOVING, True
    rounds, turns, _ = _rounds({idle, busy, holding}, contended=True)
    rounds.begin()
    while turns:
        turns.popleft()()
    assert (idle.closed, busy.closed, holding.closed) == (1, 0, 0)
