"""The transactions that are open, and the last answers of those that ended."""

from __future__ import annotations

import threading
import time
from collections import OrderedDict
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Final, Protocol

import structlog

from sealcar.errors import ExhaustedError, NotFoundError, SealcarError

if TYPE_CHECKING:
    from collections.abc import Callable

    from sealcar_server.access.principal import Principal
    from sealcar_server.service.transactions import Transaction

_REMEMBERED: Final = 256  # of one principal
_log: Final = structlog.get_logger("sealcar.transactions")


class Session(Protocol):
    """The process that a transaction lives with."""

    @property
    def id(self) -> str:
        """Different for every process."""

    def on_end(self, callback: Callable[[], None]) -> None:
        """Call this when the process is gone; at once if it is."""


class Registry:
    """Finds transactions by id; safe to share between threads.

    Args:
        ttl: seconds without use after which a transaction without a session is aborted.
        capacity: how many may be open at once.
        of_one: how many of them one principal may have, so that nobody shuts the others out.
    """

    def __init__(self, *, ttl: float, capacity: int, of_one: int) -> None:
        self.ttl = ttl
        self._capacity, self._of_one = capacity, of_one
        self._lock = threading.Lock()
        self._open: dict[bytes, Transaction] = {}
        self._ended: dict[Principal, OrderedDict[bytes, Transaction]] = {}
        self._of_session: dict[str, set[bytes]] = {}
        self._endings = ThreadPoolExecutor(1, thread_name_prefix="session-end")

    def add(self, transaction: Transaction, session: Session | None) -> None:
        """Keep a transaction until it ends, and abort it with its session.

        Raises:
            ExhaustedError: too many are open.
        """
        with self._lock:
            self._refuse_too_many(transaction.principal)
            self._open[transaction.id] = transaction
            first = session is not None and session.id not in self._of_session
            if session is not None:
                self._of_session.setdefault(session.id, set()).add(transaction.id)
        if session is not None and first:
            ending = session.id
            session.on_end(lambda: self._session_ended(ending))

    def find(self, principal: Principal, transaction_id: bytes) -> Transaction:
        """Return a transaction of this principal, ended ones included for a while.

        Raises:
            NotFoundError: there is none, or it is somebody else's.
        """
        with self._lock:
            ended = self._ended_of(principal)
            found = self._open.get(transaction_id) or ended.get(transaction_id)
        if found is None or found.principal != principal:
            raise NotFoundError("no such transaction: it may have expired")
        return found

    def settle(self, transaction: Transaction) -> None:
        """Move a transaction that has ended out of the way."""
        with self._lock:
            if transaction.ended and self._open.pop(transaction.id, None) is not None:
                for ids in self._of_session.values():
                    ids.discard(transaction.id)
                ended = self._ended_of(transaction.principal)
                ended[transaction.id] = transaction
                while len(ended) > _REMEMBERED:
                    ended.popitem(last=False)

    def expire(self) -> int:
        """Abort what has no session and was not used for the time to live; return how many."""
        now = time.monotonic()
        with self._lock:
            bound = set().union(*self._of_session.values())
            idle = [t for t in self._open.values() if t.id not in bound]
        gone = [transaction for transaction in idle if transaction.idle(now) > self.ttl]
        self._abort(gone)
        return len(gone)

    def bases(self, name: str, version: str) -> set[int]:
        """Return the generations of a version that open transactions are based on."""
        with self._lock:
            scopes = [transaction.scope for transaction in self._open.values()]
        return {
            scope.generation
            for scope in scopes
            if (scope.package, scope.version) == (name, version)
        }

    def revoke(self, refused: Callable[[Transaction], bool]) -> int:
        """Abort every open transaction that this says yes to; return how many."""
        with self._lock:
            remaining = list(self._open.values())
        gone = [transaction for transaction in remaining if refused(transaction)]
        self._abort(gone)
        return len(gone)

    def close(self) -> None:
        """Abort everything that is open."""
        with self._lock:
            remaining = list(self._open.values())
        self._abort(remaining)
        self._endings.shutdown()

    def _ended_of(self, principal: Principal) -> OrderedDict[bytes, Transaction]:
        return self._ended.setdefault(principal, OrderedDict())

    def _refuse_too_many(self, principal: Principal) -> None:
        own = sum(transaction.principal == principal for transaction in self._open.values())
        if len(self._open) >= self._capacity or own >= self._of_one:
            raise ExhaustedError(
                f"{own} transactions of the caller are open, {len(self._open)} of all; "
                f"at most {self._of_one} and {self._capacity} may be"
            )

    def _session_ended(self, session: str) -> None:
        # whoever sees the end has others to serve: the disk is for another thread
        self._endings.submit(self._end_session, session)

    def _end_session(self, session: str) -> None:
        with self._lock:
            ids = self._of_session.pop(session, set())
            ending = [self._open[key] for key in ids if key in self._open]
        self._abort(ending)

    def _abort(self, transactions: list[Transaction]) -> None:
        for transaction in transactions:
            try:
                transaction.abort()
            except SealcarError as error:
                # it has ended all the same; one that fails must not keep the others from ending
                _log.warning("what was staged can't be removed now", reason=error.message)
            self.settle(transaction)
