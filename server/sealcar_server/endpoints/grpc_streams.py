"""Streaming gRPC calls hold a thread as long as their client likes: so they are few, and end."""

from __future__ import annotations

import threading
import time
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Final

from sealcar.errors import ExhaustedError, UnavailableError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    import grpc


class Waiting:
    """A streaming call, and since when it waits for its client."""

    def __init__(self, context: grpc.ServicerContext) -> None:
        self.context: Final = context
        self.since: float | None = None

    def on_client(self, messages: Iterator[Any]) -> Iterator[Any]:
        """Pass messages of the client on, noting while none comes."""
        self.since = time.monotonic()
        for message in messages:
            self.since = None
            yield message
            self.since = time.monotonic()
        self.since = None

    def to_client(self, messages: Iterator[Any]) -> Iterator[Any]:
        """Pass messages to the client on, noting while it takes none."""
        for message in messages:
            self.since = time.monotonic()
            yield message
            self.since = None


class Streams:
    """The streaming calls that run now.

    Args:
        most: at once; one account gets half of them.
        idle_timeout: seconds after which a call that waits for its client is cancelled.
        on_refused: told who had too many, and "streams".
    """

    def __init__(
        self,
        most: int,
        idle_timeout: float,
        on_refused: Callable[[str, str], None] = lambda _account, _reason: None,
    ) -> None:
        self._on_refused = on_refused
        self._most = most
        self._idle_timeout = idle_timeout
        self._lock = threading.Lock()
        self._refused = False
        self._running: dict[Waiting, str] = {}
        self._closed = threading.Event()
        self._thread = threading.Thread(target=self._watch, name="grpc-streams", daemon=True)
        self._thread.start()

    @contextmanager
    def one(self, context: grpc.ServicerContext, account: str) -> Iterator[Waiting]:
        """Count a call while it runs.

        Raises:
            ExhaustedError: too many run.
            UnavailableError: the daemon is stopping.
        """
        call = Waiting(context)
        with self._lock:
            if self._refused:
                raise UnavailableError("the daemon is stopping", retry_after=1)
            own = sum(other == account for other in self._running.values())
            if len(self._running) >= self._most or own >= max(1, self._most // 2):
                self._on_refused(account, "streams")
                raise ExhaustedError("too many streaming calls at once", retry_after=1)
            self._running[call] = account
        try:
            yield call
        finally:
            with self._lock:
                del self._running[call]

    def cancel(self) -> None:
        """End those that run, with no reason given."""
        with self._lock:
            calls = list(self._running)
        for call in calls:
            call.context.cancel()

    def refuse(self) -> None:
        """Begin no more; those that run go on."""
        with self._lock:
            self._refused = True

    def count(self) -> int:
        """Return how many run."""
        return len(self._running)

    def close(self) -> None:
        """Stop watching."""
        self._closed.set()
        self._thread.join()

    def _watch(self) -> None:
        while not self._closed.wait(self._idle_timeout / 8):
            limit = time.monotonic() - self._idle_timeout
            with self._lock:
                calls = list(self._running)
            for call in calls:
                since = call.since
                if since is not None and since < limit:
                    call.context.cancel()
