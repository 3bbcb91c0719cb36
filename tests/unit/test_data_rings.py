"""Rings that a connection keeps: a larger one takes their place only if it can be had at once."""

from __future__ import annotations

from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest

from sealcar_server.endpoints.data_rings import RingKeeper
from sealcar_server.sealing.layout import SEGMENT
from sealcar_server.transfer.budget import Budget, Lease
from sealcar_server.transfer.outstanding import Outstanding
from sealcar_server.transfer.remains import Remains
from sealcar_server.transfer.rings import SLOTS, Ring, slots_of_use

if TYPE_CHECKING:
    from collections.abc import Callable


class Beginning:
    """What waits for a ring, and notes the one that it gets."""

    client_writes = False

    def __init__(self, most_slots: int = SLOTS) -> None:
        self.rings: list[Ring] = []
        self.most_slots = most_slots

    def begin(self, ring: Ring) -> None:
        self.rings.append(ring)

    def stop(self, reason: object) -> None:
        raise AssertionError(reason)


def connected(budget: Budget, posted: list[Any], *, made: int = 0) -> Any:  # noqa: ANN401  (as much of a connection as is used)
    door = SimpleNamespace(
        services=SimpleNamespace(budget=budget, meter=SimpleNamespace(spent=lambda *_: None)),
        outstanding=Outstanding(budget, Remains()),
        shelf=SimpleNamespace(make_room=lambda: None),
        post=lambda call, _owner: posted.append(call),
    )
    line = SimpleNamespace(
        has_ring=lambda *, client_writes, slots: not client_writes and slots == made,
        ring=lambda *, client_writes, slots: Ring(
            client_writes=client_writes, slots=slots, shared=False
        ),
    )
    principal = SimpleNamespace(uid=1, account="uid 1")
    return SimpleNamespace(door=door, line=line, peer=SimpleNamespace(principal=principal))


@pytest.mark.parametrize(
    ("own", "slots"),
    [(0, SLOTS), (42, 1)],
    ids=["there is room", "more than a share"],
)
def test_a_small_ring_is_kept_unless_a_larger_one_can_be_had_at_once(own: int, slots: int) -> None:
    budget = Budget(64 * SEGMENT)
    posted: list[Callable[[], None]] = []
    leases: list[Lease] = []
    keeper = RingKeeper(connected(budget, posted))
    waiting = Beginning()
    # what is taken makes rings small, and then is given back but for what this owner has
    budget.ask("uid 1", own * SEGMENT, lambda _: None)
    for owner, taken in ((2, 10), (3, 47 - own)):
        budget.ask(owner, taken * SEGMENT, leases.append)
    keeper.get(waiting)
    posted.pop()()
    assert [ring.slots for ring in waiting.rings] == [1]
    for lease in leases:
        lease.close()
    keeper.get(waiting)
    for call in posted:
        call()
    assert [ring.slots for ring in waiting.rings] == [1, slots]
    keeper.close()


def test_a_small_payload_gets_a_small_ring_and_a_larger_one_is_kept_for_it() -> None:
    budget = Budget(64 * SEGMENT)
    posted: list[Callable[[], None]] = []
    keeper = RingKeeper(connected(budget, posted))
    found: list[int] = []
    for pieces in (1, 2, 1, 9, 3, 1000, 1):
        waiting = Beginning(slots_of_use(pieces))
        keeper.get(waiting)
        while posted:
            posted.pop()()
        found.append(waiting.rings[0].slots)
    assert found == [1, 2, 2, 4, 4, SLOTS, SLOTS]
    keeper.close()


@pytest.mark.parametrize(
    ("most", "slots"),
    [(64, SLOTS), (SLOTS, 1)],
    ids=["there is room", "more than a share"],
)
def test_a_small_payload_gets_the_ring_that_is_made_already_if_its_owner_may_have_it(
    most: int, slots: int
) -> None:
    budget = Budget(most * SEGMENT)
    posted: list[Callable[[], None]] = []
    keeper = RingKeeper(connected(budget, posted, made=SLOTS))
    waiting = Beginning(1)
    keeper.get(waiting)
    posted.pop()()
    assert [ring.slots for ring in waiting.rings] == [slots]
    assert budget.used == slots * SEGMENT
    keeper.close()
