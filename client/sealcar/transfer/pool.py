"""A client's connections: reused, bounded, given out in the order of asking, and new after fork."""

from __future__ import annotations

import contextlib
import os
import threading
import time
import weakref
from collections import deque
from typing import TYPE_CHECKING, Final

from sealcar.errors import TimedOutError, WrongStateError
from sealcar.transfer.connection import DataConnection

if TYPE_CHECKING:
    from collections.abc import Iterator

    from sealcar.transfer.location import Location

CONNECTIONS: Final = 8


class Pool:
    """Connections of one client, one transfer a connection.

    Args:
        location: where the daemon listens.
        timeout: seconds of silence after which a request fails, and of waiting for a connection.
        limit: most connections at a time; a transaction's own isn't counted.
    """

    def __init__(self, location: Location, *, timeout: float, limit: int = CONNECTIONS) -> None:
        self._location = location
        self._timeout = timeout
        self._limit = limit
        self._closed = False
        self._start()
        _pools.add(self)

    def _start(self) -> None:
        self._lock = threading.Lock()
        self._idle: list[DataConnection] = []
        self._leased = 0
        self._waiting: deque[threading.Event] = deque()

    def connect(self) -> DataConnection:
        """Return a new connection that the caller owns and the limit doesn't count.

        Raises:
            WrongStateError: the client is closed.
            SealcarError: as DataConnection.open.
        """
        if self._closed:
            raise WrongStateError("this client is closed")
        deadline = time.monotonic() + self._timeout
        return DataConnection.open(self._location, deadline=deadline, timeout=self._timeout)

    def lease(self, *, spare: bool = False) -> DataConnection:
        """Return a connection for one transfer; `give_back` must follow.

        Args:
            spare: only if half of them are left for others then, and without waiting.

        Raises:
            TimedOutError: every connection stayed busy, or none is to spare.
            SealcarError: as `connect`.
        """
        self._wait_for_turn(spare=spare)
        try:
            return self._reuse() or self.connect()
        except BaseException:
            self._pass_turn_on()
            raise

    def give_back(self, connection: DataConnection) -> None:
        """Take a leased connection back; one that isn't usable any more is closed."""
        if connection.inherited:
            connection.close()
            return
        with self._lock:
            keep = connection.usable and not self._closed
            if keep:
                self._idle.append(connection)
        if not keep:
            connection.close()
        self._pass_turn_on()

    @contextlib.contextmanager
    def leased(self) -> Iterator[DataConnection]:
        """Lease a connection for a block; it is closed if the block fails half-way."""
        connection = self.lease()
        try:
            yield connection
        finally:
            self.give_back(connection)

    def close(self) -> None:
        """Close what is idle now, and the others when they come back."""
        with self._lock:
            self._closed = True
            idle, self._idle = self._idle, []
        for connection in idle:
            connection.close()

    def _wait_for_turn(self, *, spare: bool) -> None:
        most = self._limit // 2 if spare else self._limit
        with self._lock:
            if self._leased < most and not self._waiting:
                self._leased += 1
                return
            if spare:
                raise TimedOutError("no connection is to spare")
            turn = threading.Event()
            self._waiting.append(turn)
        try:
            turn.wait(self._timeout)
        except BaseException:
            if not self._leave_queue(turn):
                self._pass_turn_on()
            raise
        if self._leave_queue(turn):
            raise TimedOutError(
                f"all {self._limit} connections were busy for {self._timeout:g} seconds"
            )

    def _leave_queue(self, turn: threading.Event) -> bool:
        with self._lock:
            waited = not turn.is_set()
            if waited:
                self._waiting.remove(turn)
        return waited

    def _pass_turn_on(self) -> None:
        with self._lock:
            if self._waiting:
                self._waiting.popleft().set()  # the count stays: the turn is theirs now
            else:
                self._leased -= 1

    def _reuse(self) -> DataConnection | None:
        while True:
            with self._lock:
                connection = self._idle.pop() if self._idle else None
            if connection is None or connection.idle():
                return connection
            connection.close()

    def forget_parent(self) -> None:
        """In a child: drop the parent's connections, which only the parent may speak on."""
        inherited = self._idle
        self._start()
        for connection in inherited:
            connection.close()


_pools: weakref.WeakSet[Pool] = weakref.WeakSet()


def _after_fork() -> None:
    for pool in list(_pools):
        pool.forget_parent()


os.register_at_fork(after_in_child=_after_fork)
