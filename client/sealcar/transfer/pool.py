"""A client's connections: reused, bounded, given out in the order of asking, and new after fork."""

from __future__ import annotations

import contextlib
import os
import threading
import time
import weakref
from collections import deque
from typing import TYPE_CHECKING, Final, TypedDict, TypeVar

from sealcar.errors import TimedOutError, WrongStateError
from sealcar.transfer.deliveries import Delivery
from sealcar.transfer.dialling import NoSharedMemoryError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from sealcar.transfer.connection import DataConnection
    from sealcar.transfer.location import Location

CONNECTIONS: Final = 8
_Started = TypeVar("_Started")


class _Options(TypedDict):
    deadline: float
    timeout: float


class Pool:
    """Connections of one client, one transfer a connection.

    Args:
        location: where the daemon listens.
        timeout: seconds of silence after which a request fails, and of waiting for a connection.
        limit: most connections at a time; a transaction's own isn't counted.
        delivery: how large payloads come and go; as `Delivery`.

    Attributes:
        delivery: which one is used, and why.
    """

    def __init__(
        self,
        location: Location,
        *,
        timeout: float,
        limit: int = CONNECTIONS,
        delivery: str | None = None,
    ) -> None:
        self.delivery = Delivery(location, delivery)
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
        options: _Options = {"deadline": deadline, "timeout": self._timeout}
        try:
            return self.delivery.way.open(self._location, **options)
        except NoSharedMemoryError as error:
            if not self.delivery.falls_back(error):
                raise
        return self.delivery.way.open(self._location, **options)

    def begin(
        self, start: Callable[[DataConnection], _Started], *, spare: bool = False
    ) -> tuple[DataConnection, _Started]:
        """Lease a connection, as `lease`, and start a transfer on it, by another way if need be.

        Raises:
            SealcarError: as `lease`, and what starting it raises; nothing is leased then.
        """
        while True:
            connection = self.lease(spare=spare)
            try:
                return connection, start(connection)
            except NoSharedMemoryError as error:
                self.give_back(connection)
                # after a stream there is no other way to try
                if connection.delivery == "stream" or not self.delivery.falls_back(error):
                    raise
            except BaseException:
                self.give_back(connection)
                raise

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
            keep = keep and self.delivery.uses(connection)
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
            if connection is None:
                return None
            if self.delivery.uses(connection) and connection.idle():
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
