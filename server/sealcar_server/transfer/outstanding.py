"""Rings that are no longer used, and that their client could still have mapped.

What is mapped can't be taken back. So the memory stays counted until the kernel says that nobody
has it any more: else a client that connects, maps and closes again and again would have as much
of the daemon's memory as it likes. Most clients that still have a ring are merely idle, and drop
it as soon as they do something; so while others wait, it is lent out once more: to each owner once
the share that it may have. In use is therefore at most twice what the budget says.
"""

from __future__ import annotations

from collections import Counter
from functools import partial
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Hashable, Mapping

    from sealcar_server.transfer.budget import Budget, Lease
    from sealcar_server.transfer.remains import Remains
    from sealcar_server.transfer.rings import Ring


class Outstanding:
    """Used by one thread.

    Args:
        budget: where the leases come from.
        remains: gets what nobody has any more.
    """

    def __init__(self, budget: Budget, remains: Remains) -> None:
        self._budget, self._remains = budget, remains
        self._counted: dict[Ring, Lease] = {}
        self._lent_again: dict[Ring, Hashable] = {}
        self._of_owner: Counter[Hashable] = Counter()

    def take(self, ring: Ring, lease: Lease) -> None:
        """Give up a ring, and its memory as soon as nobody has it."""
        ring.give_up()
        self._counted[ring] = lease
        self.look()

    def look(self) -> None:
        """Give back what nobody has any more, and more if it has to be. Called now and then."""
        for ring in _dropped(self._counted):
            self._remains.leave(ring, self._counted.pop(ring).close)
        for ring in _dropped(self._lent_again):
            owner = self._lent_again.pop(ring)
            self._remains.leave(ring, partial(self._came_back, owner, ring.size))
        if self._budget.contended:
            self._lend_again()

    def close(self) -> None:
        """Watch no longer."""
        for ring in [*self._counted, *self._lent_again]:
            ring.close()
        for lease in self._counted.values():
            lease.close()

    def _came_back(self, owner: Hashable, size: int) -> None:
        self._of_owner[owner] -= size

    def _lend_again(self) -> None:
        for ring, lease in list(self._counted.items()):
            if self._of_owner[lease.owner] + ring.size <= self._budget.share:
                self._of_owner[lease.owner] += ring.size
                self._lent_again[ring] = lease.owner
                del self._counted[ring]
                lease.close()
            if not self._budget.contended:
                return


def _dropped(rings: Mapping[Ring, object]) -> list[Ring]:
    return [ring for ring in rings if not ring.held]
