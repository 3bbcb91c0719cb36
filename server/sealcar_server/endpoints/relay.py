"""The public gRPC socket: a relay that lets servicers know who calls.

gRPC tells a servicer nothing of a Unix peer but the name that the peer's socket is bound to. So
the relay accepts each connection, asks the kernel at its first byte who it is, binds its own
outgoing socket to a fresh random name in a directory that only the daemon can enter, and connects
to the inner gRPC socket there. `Relay.session` turns the name back into the session. Whoever
reaches the inner socket in another way has no such name and is nobody; what metadata says is never
looked at.
"""

from __future__ import annotations

import contextlib
import math
import os
import secrets
import selectors
import socket as sockets
import threading
import time
from typing import TYPE_CHECKING, Final
from urllib.parse import unquote

import structlog

from sealcar.errors import DeniedError, ExhaustedError, SealcarError
from sealcar_server.access.peers import peer_of, principal_of
from sealcar_server.endpoints.arrivals import Arrival, Arrivals, Said, closed_if_refused, said
from sealcar_server.endpoints.places import Places
from sealcar_server.endpoints.pump import Link
from sealcar_server.endpoints.refusal_lines import RefusalLines

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from pathlib import Path

    from sealcar_server.access.peers import Peer
    from sealcar_server.access.principal import Principal
    from sealcar_server.access.sessions import Session, Sessions

NAME_BYTES: Final = 20  # of a bound name, as text
INNER: Final = "grpc.sock"
_LINKS: Final = 1024
_LINKS_OF_ONE: Final = 128
_FLUSH: Final = 2.0  # seconds for the last bytes, at the end
_PAUSE: Final = 0.1  # seconds without accepting, when descriptors ran out
_REST: Final = 0.0005  # the same, after one who hung up: it's the daemon's time that he takes
_LOOK: Final = 1.0  # seconds between two looks for connections that outlived their process
_PATIENCE: Final = 10.0  # seconds until the first byte; gRPC clients send theirs at once
_log: Final = structlog.get_logger("sealcar.relay")


class Relay:
    """Accepts on every listener's grpc.sock and carries bytes to the inner server and back.

    Args:
        folder: a directory of mode 0700 with the inner server's socket.
        sessions: joined by each connection.
        of_one: connections that one uid may have, those that said nothing yet among them.
        patience: seconds for which a connection may say nothing.
        on_refused: told who had too many, and "connections".
    """

    def __init__(
        self,
        folder: Path,
        sessions: Sessions,
        *,
        of_one: int = _LINKS_OF_ONE,
        patience: float = _PATIENCE,
        on_refused: Callable[[Principal, str], None] = lambda _principal, _reason: None,
    ) -> None:
        self._folder = folder
        self._sessions = sessions
        self._places = Places(of_one, _LINKS, on_refused)
        self._selector = selectors.DefaultSelector()
        self._wake = os.eventfd(0, os.EFD_CLOEXEC | os.EFD_NONBLOCK)
        self._selector.register(self._wake, selectors.EVENT_READ)
        self._callers: dict[str, Session | SealcarError] = {}
        self._links: set[Link] = set()
        self._arrivals = Arrivals(self._selector, patience)
        self._lines = RefusalLines()
        self._listeners: dict[sockets.socket, str] = {}
        self._stopping = False
        self._asked: Callable[[], None] | None = None
        self._until = 0.0
        self._thread = threading.Thread(target=self._run, name="relay", daemon=True)

    def start(self, listeners: Mapping[str, sockets.socket]) -> None:
        """Take over listening sockets, by the listener's name, and begin."""
        for name, listener in listeners.items():
            listener.settimeout(0)
            self._listeners[listener] = name
        self._listen()
        self._thread.start()

    def session(self, peer: str) -> Session:
        """Return who is behind a servicer's `context.peer()`.

        Raises:
            DeniedError: nobody whom the relay let in, or not any more.
        """
        caller = self._callers.get(unquote(peer.removeprefix("unix:")))
        if isinstance(caller, SealcarError):
            # made anew: the one kept would gather a traceback and a place at each call
            raise type(caller)(caller.message)
        if caller is None or caller.ended:
            raise DeniedError("calls are served on a listener's grpc.sock only")
        return caller

    def ask(self, answered: Callable[[], None]) -> None:
        """Have its thread call this, at its next turn."""
        self._asked = answered

    def stop(self) -> None:
        """Accept no more, carry over what the inner server said last, and close everything.

        Call it when the inner server has stopped: it ends each connection by closing its side.
        """
        self._until = time.monotonic() + _FLUSH
        self._stopping = True
        os.eventfd_write(self._wake, 1)
        if self._thread.is_alive():
            self._thread.join()
        for link in list(self._links):
            self._close(link)
        for listener in self._listeners:
            listener.close()
        self._selector.close()
        os.close(self._wake)

    def _listen(self) -> None:
        for listener, name in self._listeners.items():
            if listener not in self._selector.get_map():
                self._selector.register(listener, selectors.EVENT_READ, name)

    def _run(self) -> None:
        pause, looked = 0.0, 0.0
        while not self._stopping:
            ready = self._selector.select(pause or _LOOK)
            answer = self._asked
            # one that comes after the look stays for the next
            if answer is not None:
                self._asked = None
                answer()
            if time.monotonic() - looked > _LOOK:
                self._end_with_their_process()
                self._end_silent(time.monotonic())
                looked = time.monotonic()
            if pause:
                self._listen()
                pause = 0.0
            for key, events in ready:
                if isinstance(key.data, str):
                    pause = max(pause, self._accept_one(key.fileobj, key.data))  # type: ignore[arg-type]  # a listener
                elif isinstance(key.data, Arrival):
                    self._hear(key.data)
                else:
                    self._move(key.data, key.fd, events)
        self._ignore_listeners()
        self._end_silent(math.inf)
        self._selector.unregister(self._wake)
        while self._links and time.monotonic() < self._until:
            for key, events in self._selector.select(_PAUSE):
                self._move(key.data, key.fd, events)

    def _ignore_listeners(self) -> None:
        for listener in self._listeners:
            with contextlib.suppress(KeyError):
                self._selector.unregister(listener)

    def _end_with_their_process(self) -> None:
        """Close connections whose process is gone: somebody else may hold their socket."""
        for link in list(self._links):
            caller = self._callers.get(link.name)
            if not isinstance(caller, SealcarError) and (caller is None or caller.ended):
                self._close(link)

    def _move(self, link: Link | None, fd: int, events: int) -> None:
        if link is not None and link in self._links and not link.move(fd, events):
            self._close(link)

    def _accept_one(self, listener: sockets.socket, name: str) -> float:
        """Take a connection in, and return for how many seconds listeners are ignored now.

        One only: those that are open have their turn before the next.
        """
        try:
            if self._accept(listener.accept()[0], name):
                return 0.0
            pause = _REST
        except (BlockingIOError, ConnectionError):
            return 0.0
        except OSError as error:
            _log.warning("no connection can be accepted", error=error.strerror)
            pause = _PAUSE
        self._ignore_listeners()
        return pause

    def _accept(self, client: sockets.socket, name: str) -> bool:
        """Take one in; False: he hung up before."""
        client.settimeout(0)
        first = said(client)
        if first is Said.END:
            client.close()
            return False
        with closed_if_refused(client, name, self._lines):
            uid = self._places.enter(principal_of(client, name))
            if first is Said.NOTHING:
                self._await(client, name, uid)
            else:
                self._open(client, name, uid)
        return True

    def _await(self, client: sockets.socket, listener: str, uid: int) -> None:
        """Wait for the first byte of one that was counted in."""
        try:
            self._arrivals.add(client, listener, uid)
        except OSError:
            self._places.leave(uid)
            raise

    def _hear(self, arrival: Arrival) -> None:
        """Go on with a connection that said something, or hung up."""
        if not self._arrivals.take(arrival):
            return
        if said(arrival.client) is Said.END:
            arrival.client.close()
            self._places.leave(arrival.uid)
            return
        with closed_if_refused(arrival.client, arrival.listener, self._lines):
            self._open(arrival.client, arrival.listener, arrival.uid)

    def _end_silent(self, now: float) -> None:
        for arrival in self._arrivals.end_late(now):
            self._places.leave(arrival.uid)

    def _open(self, client: sockets.socket, listener: str, uid: int) -> None:
        """Connect inwards for one that was counted in."""
        name = str(self._folder / secrets.token_urlsafe(NAME_BYTES * 3 // 4))
        try:
            caller = self._join(peer_of(client, listener), name)
            inner = self._connect(name)
        except (SealcarError, OSError):
            self._sessions.leave(name)
            self._places.leave(uid)
            raise
        try:
            link = Link(name, uid, client, inner, self._selector)
        except OSError:
            inner.close()
            self._sessions.leave(name)
            self._places.leave(uid)
            raise
        self._callers[name] = caller
        self._links.add(link)

    def _join(self, peer: Peer, name: str) -> Session | SealcarError:
        try:
            return self._sessions.join(peer, name)
        except (DeniedError, ExhaustedError) as error:
            return error  # told to the caller at each call, better than a closed connection

    def _connect(self, name: str) -> sockets.socket:
        inner = sockets.socket(sockets.AF_UNIX, sockets.SOCK_STREAM | sockets.SOCK_NONBLOCK)
        try:
            inner.bind(name)
            try:
                inner.connect(str(self._folder / INNER))
            finally:
                os.unlink(name)  # noqa: PTH108  (a string all along: it is what gRPC shows)
        except OSError:
            inner.close()
            raise
        return inner

    def _close(self, link: Link) -> None:
        self._links.discard(link)
        link.close()
        self._callers.pop(link.name, None)
        self._sessions.leave(link.name)
        self._places.leave(link.uid)
