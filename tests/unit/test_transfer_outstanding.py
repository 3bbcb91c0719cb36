from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pytest

from sealcar_server.transfer.budget import Budget, Lease
from sealcar_server.transfer.outstanding import Outstanding
from sealcar_server.transfer.remains import Remains
from sealcar_server.transfer.rings import SIZE, Ring

if TYPE_CHECKING:
    from collections.abc import Iterator

LIMIT = 4 * SIZE  # of which one owner gets three


@pytest.fixture
def budget() -> Budget:
    return Budget(LIMIT)


@pytest.fixture
def remains() -> Iterator[Remains]:
    with Remains() as made:
        yield made


@pytest.fixture
def outstanding(budget: Budget, remains: Remains) -> Iterator[Outstanding]:
    made = Outstanding(budget, remains)
    yield made
    made.close()


def lease(budget: Budget, owner: str) -> Lease:
    granted: list[Lease] = []
    budget.ask(owner, SIZE, granted.append)
    return granted[0]


def given_up(outstanding: Outstanding, budget: Budget, owner: str) -> int:
    """Return the descriptor by which somebody still has a ring."""
    ring = Ring(client_writes=False)
    descriptor = ring.take_descriptor()
    outstanding.take(ring, lease(budget, owner))
    return descriptor


def test_memory_is_given_back_once_nobody_has_it(budget: Budget, outstanding: Outstanding) -> None:
    descriptor = given_up(outstanding, budget, "a")
    outstanding.look()
    assert budget.used == SIZE
    os.close(descriptor)
    outstanding.look()
    assert budget.used == 0


def test_memory_that_nobody_has_is_given_back_at_once(
    budget: Budget, outstanding: Outstanding
) -> None:
    outstanding.take(Ring(client_writes=False), lease(budget, "a"))
    outstanding.take(Ring(client_writes=True), lease(budget, "a"))
    assert budget.used == 0


def test_while_others_wait_an_owners_share_is_lent_once_more_and_then_no_more(
    budget: Budget, outstanding: Outstanding
) -> None:
    descriptors = [given_up(outstanding, budget, "a") for _ in range(3)]
    waiting: list[Lease] = []
    for _ in range(4):
        budget.ask("a", SIZE, waiting.append)
    outstanding.look()
    assert len(waiting) == 3
    for each in waiting[:3]:
        outstanding.take(Ring(client_writes=False), each)
    assert len(waiting) == 4
    waiting[3].close()
    descriptors += [given_up(outstanding, budget, "a") for _ in range(3)]
    late: list[Lease] = []
    budget.ask("a", SIZE, late.append)
    outstanding.look()
    assert not late
    for descriptor in descriptors:
        os.close(descriptor)
    outstanding.look()
    assert len(late) == 1
    late[0].close()
    assert budget.used == 0


def test_memory_of_which_somebody_keeps_a_bare_reference_stays_counted(
    budget: Budget, outstanding: Outstanding, remains: Remains
) -> None:
    descriptor = given_up(outstanding, budget, "a")
    reference = os.open(f"/proc/self/fd/{descriptor}", os.O_PATH)
    os.close(descriptor)
    outstanding.look()
    remains.look()
    assert budget.used == SIZE
    # nobody but him could have it again
    again = os.open(f"/proc/self/fd/{reference}", os.O_RDONLY)
    os.close(reference)
    remains.look()
    assert budget.used == SIZE
    os.close(again)
    remains.look()
    assert budget.used == 0
