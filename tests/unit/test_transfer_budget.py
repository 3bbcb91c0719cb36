from __future__ import annotations

import threading

from sealcar_server.transfer.budget import Budget, Lease


class Asked:
    """Somebody who asked, and what he got."""

    def __init__(self, budget: Budget, owner: str, size: int) -> None:
        self.lease: Lease | None = None
        self.ticket = budget.ask(owner, size, self.granted)

    def granted(self, lease: Lease) -> None:
        self.lease = lease

    def give_back(self) -> None:
        assert self.lease
        self.lease.close()


def test_what_fits_is_granted_at_once_and_counted() -> None:
    budget = Budget(100)
    first = Asked(budget, "a", 40)
    assert first.lease
    assert budget.used == 40
    first.give_back()
    first.give_back()
    assert budget.used == 0


def test_what_does_not_fit_waits_in_the_order_of_asking() -> None:
    budget = Budget(100)
    holders = [Asked(budget, owner, 50) for owner in "ab"]
    large, small = Asked(budget, "c", 60), Asked(budget, "d", 10)
    assert budget.contended
    holders[0].give_back()
    assert not large.lease, "50 are free, it wants 60"
    assert not small.lease, "it would fit, but came later"
    holders[1].give_back()
    assert large.lease
    assert small.lease
    assert not budget.contended


def test_one_owner_gets_three_quarters_at_most_and_holds_nobody_else_up() -> None:
    budget = Budget(100)
    greedy = [Asked(budget, "greedy", 25) for _ in range(4)]
    assert [each.lease is not None for each in greedy] == [True, True, True, False]
    other = Asked(budget, "other", 25)
    assert other.lease
    greedy[0].give_back()
    assert greedy[3].lease


def test_who_leaves_the_queue_lets_the_next_one_in() -> None:
    budget = Budget(100)
    holder = Asked(budget, "a", 75)
    large, small = Asked(budget, "b", 50), Asked(budget, "c", 25)
    assert large.ticket.cancel()
    assert small.lease
    assert not small.ticket.cancel(), "too late: it was granted"
    holder.give_back()
    assert not large.lease


def test_the_limit_holds_under_many_threads() -> None:
    budget = Budget(64)
    most = []
    done = threading.Semaphore(0)

    def use(lease: Lease) -> None:
        most.append(budget.used)
        threading.Timer(0.001, finish, [lease]).start()

    def finish(lease: Lease) -> None:
        lease.close()
        done.release()

    for number in range(200):
        budget.ask(number % 5, 8, use)
    for _ in range(200):
        assert done.acquire(timeout=10)
    assert max(most) <= 64
    assert budget.used == 0


def test_a_group_gets_one_owners_share_together_and_lets_smaller_ones_pass() -> None:
    budget = Budget(100)

    def large(owner: str, size: int) -> list[Lease]:
        granted: list[Lease] = []
        budget.ask(owner, size, granted.append, group="large")
        return granted

    first, second, third = large("a", 40), large("b", 35), large("c", 10)
    assert (len(first), len(second), len(third)) == (1, 1, 0), "the group has its share"
    assert Asked(budget, "d", 25).lease, "what is left is others'"
    fourth = large("e", 30)
    second[0].close()
    assert third
    assert not fourth, "25 are free"
    assert Asked(budget, "f", 20).lease, "who needs less needn't wait for it"
    first[0].close()
    assert fourth


def test_giving_something_back_is_asked_for_only_if_it_helps() -> None:
    budget = Budget(100)
    greedy = [Asked(budget, "greedy", 75), Asked(budget, "greedy", 10)]
    other = Asked(budget, "other", 10)
    assert (greedy[1].lease, other.lease is not None) == (None, True)
    assert budget.wants_from("greedy"), "it would have its share back"
    assert not budget.wants_from("other")
    third = Asked(budget, "third", 20)
    assert not third.lease
    assert budget.wants_from("other")
