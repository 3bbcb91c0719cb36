"""Sessions: a session is one client process, all its connections together.

It ends when the process exits or its last connection closes, whichever is first; then everything
that hangs on it is freed through `Session.on_end`.
"""

from __future__ import annotations

import contextlib
import os
import secrets
import select
import selectors
import threading
from typing import TYPE_CHECKING, Final

import structlog

from sealcar.errors import DeniedError, ExhaustedError, SealcarError, UnavailableError

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable

    from sealcar_server.access.peers import Peer
    from sealcar_server.access.principal import Principal

_log: Final = structlog.get_logger("sealcar.access")


class Session:
    """One client process while it is connected.

    Attributes:
        pid: 0 if it isn't known.
        received: whether it was handed plaintext; whoever hands it over says so here.
    """

    def __init__(self, peer: Peer, key: Hashable) -> None:
        self.id: Final = secrets.token_hex(8)
        self.principal: Final[Principal] = peer.principal
        self.pid: Final = peer.pid
        self.received = False
        self.assurance: Final = peer.assurance
        self.key: Final = key
        self.connections: Final[set[Hashable]] = set()
        self._lock = threading.Lock()
        self._ended = False
        self._callbacks: list[Callable[[], None]] = []

    @property
    def ended(self) -> bool:
        """True once its process is gone or its last connection closed."""
        return self._ended

    def on_end(self, callback: Callable[[], None]) -> None:
        """Call this once when the session ends, from whichever thread sees it; now, if it ended."""
        with self._lock:
            if not self._ended:
                self._callbacks.append(callback)
                return
        callback()

    def end(self) -> None:
        """Run what waits for the end, each callback once and each even if another one failed."""
        with self._lock:
            self._ended = True
            callbacks, self._callbacks = self._callbacks, []
        for callback in callbacks:
            try:
                callback()
            except Exception:  # noqa: BLE001  (one that fails must not keep the others from running)
                _log.exception("freeing part of a session failed", session=self.id)


class Sessions:
    """All client processes that are connected now.

    Args:
        own_uid: a uid that is refused on every listener: the daemon's own, whose processes could
            read what was handed to others. None refuses nobody.
        of_one: how many one uid may have at a time.
        on_denied: told "own-uid" or "limit" at each refusal.
        on_count: told how many sessions there are at each change.
        on_refused: told who was refused, and "own-uid" or "sessions".
    """

    def __init__(
        self,
        *,
        own_uid: int | None = None,
        of_one: int = 256,
        on_denied: Callable[[str], None] = lambda _kind: None,
        on_count: Callable[[int], None] = lambda _count: None,
        on_refused: Callable[[Principal, str], None] = lambda _principal, _kind: None,
    ) -> None:
        self._own_uid = own_uid
        self._of_one = of_one
        self._on_denied = on_denied
        self._on_count = on_count
        self._on_refused = on_refused
        self._lock = threading.Lock()
        self._by_key: dict[Hashable, Session] = {}
        self._by_connection: dict[Hashable, Session] = {}
        self._pidfds: dict[Hashable, int] = {}
        self._selector = selectors.DefaultSelector()
        self._wake = os.eventfd(0, os.EFD_CLOEXEC | os.EFD_NONBLOCK)
        self._selector.register(self._wake, selectors.EVENT_READ)
        self._closed = False
        self._thread = threading.Thread(target=self._watch, name="sessions", daemon=True)
        self._thread.start()

    def join(self, peer: Peer, connection: Hashable) -> Session:
        """Count a connection in, and return its process's session. Takes `peer.pidfd` over.

        Raises:
            DeniedError: the peer has the daemon's own uid, and isolation is by uid.
            ExhaustedError: too many processes of its uid are connected.
            UnavailableError: the daemon is stopping.
        """
        try:
            self.admit(peer)
            with self._lock:
                if self._closed:
                    raise UnavailableError("the daemon is stopping")
                session = self._session(peer)
                session.connections.add(connection)
                self._by_connection[connection] = session
                count = len(self._by_key)
        except SealcarError:
            peer.close()
            raise
        self._on_count(count)
        return session

    def leave(self, connection: Hashable) -> None:
        """Count a connection out. Its session ends with its last connection."""
        with self._lock:
            session = self._by_connection.pop(connection, None)
            if session is None:
                return
            session.connections.discard(connection)
            if session.connections:
                return
            self._forget(session)
            count = len(self._by_key)
        self._on_count(count)
        session.end()

    def connected(self) -> list[Session]:
        """Return the client processes that are connected."""
        with self._lock:
            return list(self._by_key.values())

    def count(self) -> int:
        """Return how many client processes are connected."""
        return len(self._by_key)

    def close(self) -> None:
        """End every session and stop watching."""
        with self._lock:
            self._closed = True
            remaining = list(self._by_key.values())
            for session in remaining:
                self._forget(session)
        os.eventfd_write(self._wake, 1)
        self._thread.join()
        for session in remaining:
            session.end()
        self._selector.close()
        os.close(self._wake)

    def is_own(self, peer: Peer) -> bool:
        """Tell whether a peer has the daemon's own uid, which gets no session."""
        return self._own_uid is not None and peer.principal.uid == self._own_uid

    def admit(self, peer: Peer) -> None:
        """Return if a peer may have a session, as far as its uid goes; count it if it may not.

        Raises:
            DeniedError: the peer has the daemon's own uid, and isolation is by uid.
        """
        if self.is_own(peer):
            self._on_denied("own-uid")
            self._on_refused(peer.principal, "own-uid")
            raise DeniedError(
                f"uid {self._own_uid} is the daemon's own; run clients as another user, "
                'or set daemon.isolation = "none" to do without protection between them'
            )

    def _session(self, peer: Peer) -> Session:
        # the principal is part of it: a process that changed its uid is somebody else
        key = (peer.session_key, peer.principal)
        session = self._by_key.get(key)
        if session is not None:
            peer.close()
            return session
        uid = peer.principal.uid
        if sum(one.principal.uid == uid for one in self._by_key.values()) >= self._of_one:
            self._on_denied("limit")
            self._on_refused(peer.principal, "sessions")
            raise ExhaustedError(
                f"{self._of_one} processes of uid {uid} are connected already; see limits.sessions",
                retry_after=1.0,
            )
        session = self._by_key[key] = Session(peer, key)
        if peer.pidfd is not None:
            self._pidfds[key] = peer.pidfd
            self._selector.register(peer.pidfd, selectors.EVENT_READ, session)
        return session

    def _forget(self, session: Session) -> None:
        self._by_key.pop(session.key, None)
        for connection in session.connections:
            self._by_connection.pop(connection, None)
        pidfd = self._pidfds.pop(session.key, None)
        if pidfd is not None:
            with contextlib.suppress(KeyError):
                self._selector.unregister(pidfd)
            os.close(pidfd)

    def _has_exited(self, session: Session) -> bool:
        if self._by_key.get(session.key) is not session:
            return False
        poll = select.poll()
        poll.register(self._pidfds[session.key], select.POLLIN)
        return bool(poll.poll(0))

    def _watch(self) -> None:
        while not self._closed:
            gone = [key.data for key, _ in self._selector.select() if key.data is not None]
            with self._lock:
                # one may have ended otherwise since, and another have its descriptor's number
                gone = [session for session in gone if self._has_exited(session)]
                for session in gone:
                    self._forget(session)
                count = len(self._by_key)
            for session in gone:
                self._on_count(count)
                session.end()
