"""Looking after all connections now and then, in small steps.

Each step is a turn like others' requests are: who asks for something is made to wait for a few
connections' worth of it, however many there are.
"""

from __future__ import annotations

import time
from functools import partial
from typing import TYPE_CHECKING, Final

from sealcar_server.endpoints.data_turns import Phase

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable

    from sealcar_server.endpoints.connection import Connection
    from sealcar_server.endpoints.data_door import Door

_AT_ONCE: Final = 4  # connections, before others have their turn
_IDLE: Final = 0.5


class Rounds:
    """On the data socket's thread.

    Args:
        door: of the data socket.
        connections: all of them, whenever a round begins.
        turn: has something called in the daemon's own turn.
    """

    def __init__(
        self,
        door: Door,
        connections: Collection[Connection],
        turn: Callable[[Callable[[], None]], None],
    ) -> None:
        self._door, self._connections, self._turn = door, connections, turn
        self._left = 0

    def begin(self) -> None:
        """Look after everything once more, unless the last round isn't over yet."""
        if self._left:
            return
        everybody = list(self._connections)
        parts = [everybody[at : at + _AT_ONCE] for at in range(0, len(everybody), _AT_ONCE)]
        steps: list[Callable[[], None]] = [partial(_look_after, part) for part in parts]
        steps += [self._door.outstanding.look, self._door.shelf.look]
        steps += [self._door.remains.look, self._reclaim, self._prepare]
        self._left = len(steps)
        for step in steps:
            self._turn(partial(self._take, step))

    def _take(self, step: Callable[[], None]) -> None:
        self._left -= 1
        step()

    def _reclaim(self) -> None:
        """Close connections that hold a ring without using it while others wait for memory."""
        if not self._door.services.budget.contended:
            return
        now = time.monotonic()
        for connection in list(self._connections):
            idle = connection.phase is Phase.IDLE and now - connection.since > _IDLE
            if idle and connection.rings.count and not connection.holds_transaction:
                connection.close(None)

    def _prepare(self) -> None:
        """Have a ring made for the next one to read, while nobody has one."""
        if not self._door.services.budget.used:
            self._door.spare.prepare()


def _look_after(connections: Iterable[Connection]) -> None:
    now = time.monotonic()
    for connection in connections:
        connection.check_patience(now)
        if connection.operation is not None:
            connection.operation.renew()
