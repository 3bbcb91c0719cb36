"""What the connections of the data socket share: services, limits, and the way between threads."""

from __future__ import annotations

import threading
import time
from collections import Counter, deque
from contextvars import copy_context
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Final, TypeVar

import structlog

from sealcar.errors import ExhaustedError, InternalError, SealcarError
from sealcar_server import spans
from sealcar_server.access import shares
from sealcar_server.access.rates import UNLIMITED, Rates
from sealcar_server.endpoints.data_chores import Chores
from sealcar_server.endpoints.refusal_lines import RefusalLines
from sealcar_server.sealing.scratch import Scratch
from sealcar_server.transfer.outstanding import Outstanding
from sealcar_server.transfer.remains import Remains
from sealcar_server.transfer.shelf import Shelf
from sealcar_server.transfer.shelved import Place
from sealcar_server.transfer.spare import Spare

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable, Iterator

    from sealcar_server.access.principal import Principal
    from sealcar_server.access.sessions import Session, Sessions
    from sealcar_server.access.shares import Shares
    from sealcar_server.service.payloads import Payloads
    from sealcar_server.transfer.budget import Budget
    from sealcar_server.transfer.engine import Engine
    from sealcar_server.transfer.metering import Meter

_log: Final = structlog.get_logger("sealcar.data")
_Result = TypeVar("_Result")
_WARM: Final = 4096


@dataclass(frozen=True, kw_only=True)
class Limits:
    """How patient the data socket is, and with how many.

    Attributes:
        wait: seconds that a transfer waits for memory.
        idle_timeout: seconds that a client may leave a transfer waiting.
        warm_for: seconds after which opening a package may have to ask for its key again; until
            then its payloads are opened on the socket's own thread.
        segment_idle: seconds that a segment is kept which no process has.
        connections: most at a time, and most of one uid.
        transfers_of_one: most that one uid may have under way.
    """

    wait: float = 20.0
    idle_timeout: float = 60.0
    warm_for: float = 30.0
    segment_idle: float = 300.0
    connections: int = 1024
    connections_of_one: int = 256
    transfers_of_one: int = 128


@dataclass(frozen=True, kw_only=True)
class Services:
    """What the data socket calls."""

    payloads: Payloads
    sessions: Sessions
    engine: Engine
    budget: Budget
    meter: Meter
    release: str
    isolation: str
    locked: Callable[[], bool]
    rates: Rates = UNLIMITED
    shares: Shares = shares.UNLIMITED
    refused: Callable[[Principal, str], None] = lambda _principal, _reason: None
    tracing: spans.Tracing = spans.UNTRACED


class Door:
    """Carries work off the socket's thread, and results back onto it.

    Args:
        services: what is called.
        limits: how patiently.
        wake: makes the socket's thread look at what was posted.
    """

    def __init__(self, services: Services, limits: Limits, wake: Callable[[], None]) -> None:
        self.services = services
        self.limits = limits
        self.lines: Final = RefusalLines()
        self.scratch: Final = Scratch()
        self.remains: Final = Remains()
        self.outstanding: Final = Outstanding(services.budget, self.remains)
        self.spare: Final = Spare(partial(self.chore, None))
        place = Place(
            *(services.budget, services.engine, services.meter),
            self.remains,
            self.post,
            self.chore,
        )
        self.shelf: Final = Shelf(place, wait=limits.wait, idle=limits.segment_idle)
        self.draining = False
        self.started: Final = time.monotonic()
        self._transfers: Counter[str] = Counter()
        self._wake = wake
        self._posted: deque[tuple[Hashable, Callable[[], None]]] = deque()
        self._chores = Chores(services.shares)
        self._of_thread = threading.local()
        self._warm: dict[Hashable, float] = {}
        self._of_session: dict[str, set[Callable[[None], None]]] = {}

    @property
    def transfers(self) -> int:
        """How many transfers are under way."""
        return self._transfers.total()

    def admit(self, principal: Principal) -> None:
        """Return if a caller may have one more transfer.

        Raises:
            ExhaustedError: too many of his are under way.
        """
        most = self.limits.transfers_of_one
        if self._transfers[principal.account] >= most:
            self.refuse(principal, "transfers")
            raise ExhaustedError(
                f"{most} transfers of {principal.account} are under way; see limits.transfers",
                retry_after=1.0,
            )

    def refuse(self, principal: Principal, limit: str) -> None:
        """Account for a caller who is over a limit."""
        self.services.meter.denied("limit")
        self.services.refused(principal, limit)

    def begun(self, principal: Principal) -> None:
        """Count a transfer."""
        self._transfers[principal.account] += 1

    def ended(self, principal: Principal) -> None:
        """Count it no more."""
        self._transfers[principal.account] -= 1
        if not self._transfers[principal.account]:
            del self._transfers[principal.account]

    def post(self, call: Callable[[], None], owner: Hashable = None) -> None:
        """Run something on the socket's thread, from any thread.

        Args:
            call: what to run.
            owner: in whose turn; None: in the daemon's own.
        """
        self._posted.append((owner, call))
        self._wake()

    def posted(self) -> Iterator[tuple[Hashable, Callable[[], None]]]:
        """Take what was posted: in whose turn to call what. On the socket's thread."""
        while self._posted:
            owner, call = self._posted.popleft()
            yield owner, partial(_guarded, call)

    def run_posted(self) -> None:
        """Run what was posted, whoever's turn it is. On the socket's thread."""
        for _, call in self.posted():
            call()

    def chore(
        self,
        owner: Hashable,
        work: Callable[[], _Result],
        done: Callable[[_Result | None, SealcarError | None], None],
    ) -> None:
        """Do something that may block; `done` runs on the socket's thread with what came of it."""
        here, back = copy_context(), copy_context()

        def run() -> None:
            result: _Result | None = None
            failure: SealcarError | None = None
            try:
                result = here.run(work)
            except SealcarError as error:
                failure = error
            except Exception:  # noqa: BLE001  (the client gets one typed error, the log the rest)
                here.run(_log.exception, "a request failed unexpectedly")
                failure = InternalError("a defect; the daemon's log has more")
            self.post(lambda: back.run(done, result, failure), owner)

        self._chores.put(owner, run)

    def chore_scratch(self) -> Scratch:
        """Return the private memory of the calling chore's thread."""
        scratch: Scratch | None = getattr(self._of_thread, "scratch", None)
        if scratch is None:
            scratch = self._of_thread.scratch = Scratch()
        return scratch

    def follow(self, session: Session, close: Callable[[None], None]) -> None:
        """Close a connection when its session ends."""
        if session.id in self._of_session:
            self._of_session[session.id].add(close)
            return
        self._of_session[session.id] = {close}
        session.on_end(lambda: self.post(lambda: self._end(session.id)))

    def unfollow(self, session: Session, close: Callable[[None], None]) -> None:
        """Forget a connection that closed by itself."""
        self._of_session.get(session.id, set()).discard(close)

    def _end(self, session: str) -> None:
        for close in list(self._of_session.pop(session, ())):
            close(None)

    def is_warm(self, key: Hashable) -> bool:
        """Tell whether opening this again can be done without waiting for anything."""
        return time.monotonic() < self._warm.get(key, 0.0)

    def warmed(self, key: Hashable) -> None:
        """Note that this was opened just now."""
        if len(self._warm) >= _WARM:
            self._warm.clear()
        self._warm[key] = time.monotonic() + self.limits.warm_for

    def close(self) -> None:
        """Wait for the chores, and run what they post."""
        self._chores.close()
        self.run_posted()
        self.spare.close()
        self.outstanding.close()
        self.shelf.close()
        self.remains.close()
        self.scratch.wipe()


def _guarded(call: Callable[[], None]) -> None:
    try:
        call()
    except Exception:  # noqa: BLE001  (the thread serves all: a defect costs one request)
        _log.exception("the result of a request wasn't handled")
