"""Memory of rings and segments together never passes a limit; who doesn't fit waits in order."""

from __future__ import annotations

import threading
from collections import Counter, deque
from typing import TYPE_CHECKING

from sealcar.errors import ExhaustedError

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable


class Lease:
    """A part of the budget, held until `close`."""

    def __init__(self, budget: Budget, owners: tuple[Hashable, ...], size: int) -> None:
        self._budget = budget
        self._owners = owners
        self.owner = owners[0]
        self.size = size

    def close(self) -> None:
        """Give it back. Repeating it is fine."""
        size, self.size = self.size, 0
        self._budget.give_back(self._owners, size)


class Ticket:
    """A place in the queue."""

    def __init__(
        self,
        budget: Budget,
        owners: tuple[Hashable, ...],
        size: int,
        granted: Callable[[Lease], None],
    ) -> None:
        self._budget = budget
        self.owners = owners
        # of a group are large ones, which small ones needn't wait for
        self.yields = len(owners) > 1
        self.size = size
        self.granted = granted

    def cancel(self) -> bool:
        """Leave the queue; False: it was granted before."""
        return self._budget.leave(self)


class Budget:
    """Thread-safe. One owner gets at most three quarters, so that nobody starves the others.

    Args:
        limit: bytes.

    Attributes:
        share: the most that one owner gets.
    """

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self.share = limit - limit // 4
        self._lock = threading.Lock()
        self._waiting: deque[Ticket] = deque()
        self._held: Counter[Hashable] = Counter()
        self._used = 0

    @property
    def used(self) -> int:
        """Bytes that are leased now."""
        return self._used

    @property
    def waiting(self) -> int:
        """How many wait."""
        return len(self._waiting)

    @property
    def contended(self) -> bool:
        """Whether somebody waits."""
        return bool(self._waiting)

    def taken(self, owner: Hashable) -> float:
        """Return which part of what an owner may have at most is taken now, by him or all."""
        with self._lock:
            return max(self._held[owner] / self.share, self._used / self.limit)

    def has_room(self, owner: Hashable, size: int) -> bool:
        """Tell whether an owner would be granted so many bytes now, without waiting."""
        with self._lock:
            fits = self._held[owner] + size <= self.share and self._used + size <= self.limit
            return fits and not self._waiting

    def wants_from(self, owner: Hashable) -> bool:
        """Tell whether somebody waits whom it would help if this owner gave something back."""
        with self._lock:
            return any(
                ticket.owners[0] == owner
                or self._held[ticket.owners[0]] + ticket.size <= self.share
                for ticket in self._waiting
            )

    def exhausted(self) -> ExhaustedError:
        """Return what somebody is told who has waited for as long as the settings allow."""
        return ExhaustedError(
            f"all {self.limit} bytes for transfers are in use; see transfer.memory_limit",
            retry_after=1.0,
        )

    def ask(
        self,
        owner: Hashable,
        size: int,
        granted: Callable[[Lease], None],
        *,
        group: Hashable | None = None,
    ) -> Ticket:
        """Queue for `size` bytes; `granted` is called once, on whichever thread makes room.

        Args:
            owner: whose share they count against.
            size: bytes.
            granted: gets the lease.
            group: all of a group together get no more than one owner's share, and let others pass
                who need less.
        """
        owners = (owner,) if group is None else (owner, group)
        ticket = Ticket(self, owners, size, granted)
        with self._lock:
            self._waiting.append(ticket)
        self._grant()
        return ticket

    def leave(self, ticket: Ticket) -> bool:
        """Take a ticket out of the queue; False: it isn't there any more."""
        with self._lock:
            if ticket not in self._waiting:
                return False
            self._waiting.remove(ticket)
        self._grant()
        return True

    def give_back(self, owners: tuple[Hashable, ...], size: int) -> None:
        """Return a lease's bytes."""
        with self._lock:
            self._used -= size
            for owner in owners:
                self._held[owner] -= size
                if self._held[owner] <= 0:
                    del self._held[owner]
        self._grant()

    def _grant(self) -> None:
        for ticket in self._next():
            ticket.granted(Lease(self, ticket.owners, ticket.size))

    def _next(self) -> list[Ticket]:
        """Take what fits off the queue, in order; who has his share doesn't hold others up."""
        chosen: list[Ticket] = []
        with self._lock:
            for ticket in list(self._waiting):
                if any(self._held[owner] + ticket.size > self.share for owner in ticket.owners):
                    continue
                if self._used + ticket.size > self.limit:
                    if ticket.yields:
                        continue
                    break
                self._waiting.remove(ticket)
                self._used += ticket.size
                for owner in ticket.owners:
                    self._held[owner] += ticket.size
                chosen.append(ticket)
        return chosen
