"""The data socket: one thread for all its connections, over any number of listeners.

The thread never waits for a disk, a key service or a client: that happens on chores' threads and
in the workers, whose results come back by `Door.post`.
"""

from __future__ import annotations

import contextlib
import os
import threading
import time
from collections import Counter
from functools import partial
from typing import TYPE_CHECKING, Final

import structlog

from sealcar.errors import DeniedError, ExhaustedError, InternalError, UnavailableError
from sealcar.v1 import data_socket_pb2 as pb
from sealcar_server.access.sessions import Session
from sealcar_server.endpoints import request_ids
from sealcar_server.endpoints.connection import Connection
from sealcar_server.endpoints.data_accepting import Lines, Newcomers, peer_with_room
from sealcar_server.endpoints.data_ahead import FillAhead
from sealcar_server.endpoints.data_door import Door, Limits, Services
from sealcar_server.endpoints.data_requests import Requests
from sealcar_server.endpoints.data_rounds import Rounds
from sealcar_server.endpoints.data_turns import Phase
from sealcar_server.endpoints.data_watch import Watch
from sealcar_server.endpoints.stream_line import StreamLine

if TYPE_CHECKING:
    import socket as sockets
    from collections.abc import Callable, Hashable, Mapping

    from sealcar_server.access.principal import Principal
    from sealcar_server.service.payload_source import PayloadSource

_log: Final = structlog.get_logger("sealcar.data")
_TURNS: Final = 1  # between two looks whether somebody else has something
_OURSELVES: Final = object()
_TICK: Final = 0.5
_PAUSE: Final = 0.05


class DataSocket:
    """Serves the data sockets of all listeners.

    Args:
        listeners: listening sockets and the listeners' names, prepared by `name_senders`; owned
            from now on. One of type SOCK_STREAM is for clients that can't be handed memory.
        services: what requests are passed to.
        limits: patience and numbers.
    """

    def __init__(
        self, listeners: Mapping[sockets.socket, str], services: Services, limits: Limits
    ) -> None:
        self._listeners = listeners
        self._services = services
        self._limits = limits
        self._watch = Watch(services.shares)
        self._wakeup = os.eventfd(0, os.EFD_CLOEXEC | os.EFD_NONBLOCK)
        self._door = Door(services, limits, self._wake)
        self._lines = Lines(services.meter, self._door.spare)
        self._newcomers = Newcomers(
            limits.connections_of_one, self._give_turn_to, self._door.refuse
        )
        self._connections: set[Connection] = set()
        self._rounds = Rounds(self._door, self._connections, self._give_turn)
        self._of_uid: Counter[int] = Counter()
        self._stopping = False
        self._deaf_until = 0.0
        self._thread = threading.Thread(target=self._run, name="data-socket", daemon=True)

    def start(self) -> None:
        """Listen, and serve until `close`."""
        self._watch.add(self._wakeup, _OURSELVES, self._woken)
        for listener in self._listeners:
            listener.settimeout(0)
        self._listen()
        self._thread.start()

    def rings(self) -> int:
        """Return how many rings are shared with clients now."""
        return sum(connection.rings.count for connection in list(self._connections))

    def connections(self) -> int:
        """Return how many connections there are."""
        return len(self._connections)

    @property
    def alive(self) -> bool:
        """Whether its thread runs."""
        return self._thread.is_alive()

    def ask(self, answered: Callable[[], None]) -> None:
        """Have its thread call this, at its next turn."""
        self._door.post(answered)

    def drain(self, timeout: float) -> bool:
        """Take no new request, and wait for the transfers under way; False: some are left."""
        self._door.draining = True
        deadline = time.monotonic() + timeout
        while self._busy():
            if time.monotonic() >= deadline:
                return False
            time.sleep(_PAUSE)
        return True

    def transfers(self) -> int:
        """Return how many transfers are under way."""
        return self._door.transfers

    def policy_changed(self) -> None:
        """End the transfers of those who lost their right to them. From any thread."""
        self._door.post(self._check_rights)

    def drop_segments(self) -> None:
        """Drop the segments that nobody may read any more, and return when that is done."""
        dropped = threading.Event()

        def drop() -> None:
            self._door.shelf.drop_fallen()
            dropped.set()

        self._door.post(drop)
        dropped.wait(_TICK * 10)

    def fill_ahead(
        self, principal: Principal, source: PayloadSource, progress: Callable[[int], None], /
    ) -> None:
        """Have a payload in a segment when this returns; as `FillAhead.run`."""
        FillAhead(self._door, principal, source).run(progress)

    def segment_holders(self) -> list[Session]:
        """Return who was given a segment that some process still has. From any thread."""
        return [one for one in self._door.shelf.holders() if isinstance(one, Session)]

    def close(self) -> None:
        """Stop serving and close everything, listeners too."""
        if self._stopping:
            return
        self._stopping = True
        self._wake()
        if self._thread.ident is None:
            self._door.close()
        else:
            self._thread.join()
        for listener in self._listeners:
            listener.close()
        self._watch.close()
        self._lines.close()
        os.close(self._wakeup)

    def closing(self, connection: Connection) -> None:
        """Stop watching a connection."""
        self._watch.remove(connection.fileno())

    def closed(self, connection: Connection) -> None:
        """Forget a connection."""
        self._connections.discard(connection)
        uid = connection.peer.principal.uid
        self._of_uid[uid] -= 1
        if not self._of_uid[uid]:
            del self._of_uid[uid]

    def _listen(self) -> None:
        for listener, name in self._listeners.items():
            self._watch.add(
                listener.fileno(),
                listener,
                partial(self._serve, partial(self._accept, name, listener)),
            )

    def _be_deaf(self, reason: str) -> None:
        """Accept nothing for a while: else the thread would spin on what it can't accept."""
        _log.error("a connection can't be accepted", reason=reason)
        for listener in self._listeners:
            self._watch.remove(listener.fileno())
        self._deaf_until = time.monotonic() + _PAUSE

    def _busy(self) -> bool:
        resting = (Phase.IDLE, Phase.NEW)
        return any(one.phase not in resting for one in list(self._connections))

    def _give_turn(self, step: Callable[[], None]) -> None:
        self._give_turn_to(_OURSELVES, step)

    def _give_turn_to(self, owner: Hashable, step: Callable[[], None]) -> None:
        self._watch.give_turn(owner, partial(self._serve, step))

    def _wake(self) -> None:
        with contextlib.suppress(OSError):
            os.eventfd_write(self._wakeup, 1)

    def _woken(self) -> None:
        with contextlib.suppress(BlockingIOError):
            os.eventfd_read(self._wakeup)

    def _run(self) -> None:
        ticked = time.monotonic() - _TICK
        while not self._stopping:
            for owner, call in self._door.posted():
                self._watch.give_turn(owner, call)
            for call in self._watch.turns(_PAUSE if self._deaf_until else _TICK, _TURNS):
                call()
            now = time.monotonic()
            if self._deaf_until and now >= self._deaf_until:
                self._deaf_until = 0.0
                self._listen()
            if now - ticked >= _TICK:
                ticked = now
                self._rounds.begin()
        self._shut()

    @staticmethod
    def _serve(call: Callable[[], None], connection: Connection | None = None) -> None:
        try:
            call()
        except Exception:  # noqa: BLE001  (the thread serves all: a defect costs one connection)
            _log.exception("a packet wasn't handled")
            if connection is not None:
                connection.close(InternalError("the daemon failed on this packet"))
        finally:
            request_ids.end()

    def _accept(self, name: str, listener: sockets.socket) -> None:
        try:
            self._newcomers.accept(listener, name, self._admit)
        except BlockingIOError:
            return
        except OSError as error:
            self._be_deaf(error.strerror or "")

    def _admit(self, name: str, sock: sockets.socket) -> None:
        if self._stopping:
            sock.close()
            return
        try:
            peer = peer_with_room(sock, name)
            line = self._lines.line(sock, peer)
        except DeniedError:
            sock.close()
            return
        except OSError as error:
            sock.close()
            self._be_deaf(error.strerror or "")
            return
        connection = Connection(line, peer, self._door, self)
        connection.handlers = Requests(connection, self._state).handlers()
        self._connections.add(connection)
        self._of_uid[peer.principal.uid] += 1
        serve = partial(self._serve, connection.readable, connection)
        account = peer.principal.account
        if isinstance(line, StreamLine):
            line.begin(account, partial(self._door.post, serve, account))
        else:
            self._watch.add(sock.fileno(), account, serve)
        limits = self._limits
        if (
            len(self._connections) > limits.connections
            or self._of_uid[peer.principal.uid] > limits.connections_of_one
        ):
            self._door.refuse(peer.principal, "connections")
            connection.close(ExhaustedError("too many connections are open", retry_after=1.0))

    def _check_rights(self) -> None:
        for connection in list(self._connections):
            if connection.operation is not None:
                connection.operation.check()
        self._door.shelf.drop_fallen()

    def _state(self) -> pb.StateResponse:
        door = self._door
        return pb.StateResponse(
            serving=not door.draining,
            sessions=self._services.sessions.count(),
            transfers=door.transfers,
            memory=self._services.budget.used,
            memory_limit=self._services.budget.limit,
            uptime_seconds=int(time.monotonic() - door.started),
            locked=self._services.locked(),
        )

    def _shut(self) -> None:
        for connection in list(self._connections):
            connection.close(UnavailableError("the daemon is stopping", retry_after=1.0))
        deadline = time.monotonic() + _TICK * 10
        for call in self._watch.given():
            call()
        while self._connections and time.monotonic() < deadline:
            self._door.run_posted()
            time.sleep(_PAUSE / 10)
        self._door.close()
