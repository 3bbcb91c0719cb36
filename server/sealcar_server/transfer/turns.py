"""Whose work is next: of each owner in turn one piece, and of his transfers one after the other.

Without it whoever has more transfers under way, or more slots, would have as many turns more.
"""

from __future__ import annotations

from collections import OrderedDict, deque
from typing import TYPE_CHECKING, Generic, TypeVar

if TYPE_CHECKING:
    from collections.abc import Collection, Hashable

_Job = TypeVar("_Job")
_Token = TypeVar("_Token")


class Turns(Generic[_Job, _Token]):
    """For one thread at a time."""

    def __init__(self) -> None:
        self._owners: OrderedDict[Hashable, OrderedDict[_Job, deque[_Token]]] = OrderedDict()
        self._count = 0

    def __len__(self) -> int:
        """How much waits."""
        return self._count

    def put(self, owner: Hashable, job: _Job, token: _Token) -> None:
        """Add a piece of work."""
        self._owners.setdefault(owner, OrderedDict()).setdefault(job, deque()).append(token)
        self._count += 1

    def waiting(self, most: int = 0) -> list[Hashable]:
        """Return the owners of whom more transfers wait than so many."""
        return [owner for owner, jobs in self._owners.items() if len(jobs) > most]

    def alone(self, owner: Hashable, job: _Job) -> bool:
        """Tell whether nothing waits but of this one transfer."""
        if not self._count:
            return True
        jobs = self._owners.get(owner, ())
        return len(self._owners) == len(jobs) == 1 and job in jobs

    def take(self, but: Collection[Hashable] = ()) -> tuple[_Job, _Token]:
        """Remove and return what is next; LookupError if nothing waits but of those owners."""
        ready = [one for one in self._owners if one not in but][:1]
        if not ready:
            raise LookupError
        owner, jobs = ready[0], self._owners.pop(ready[0])
        job, tokens = jobs.popitem(last=False)
        token = tokens.popleft()
        if tokens:
            jobs[job] = tokens
        if jobs:
            self._owners[owner] = jobs
        self._count -= 1
        return job, token
