"""Taking clients of the data socket in, in their turns: a line of its kind for each."""

from __future__ import annotations

import contextlib
import os
import socket as sockets
from collections import Counter
from functools import partial
from typing import TYPE_CHECKING, Final

from sealcar.errors import DeniedError
from sealcar_server.access.peers import peer_of, principal_of
from sealcar_server.endpoints.arrivals import Said, said
from sealcar_server.endpoints.data_line import Line
from sealcar_server.endpoints.data_packets import OneSender
from sealcar_server.endpoints.stream_line import StreamLine
from sealcar_server.endpoints.stream_mover import Mover

if TYPE_CHECKING:
    from collections.abc import Callable

    from sealcar_server.access.peers import Peer
    from sealcar_server.access.principal import Principal
    from sealcar_server.transfer.metering import Meter
    from sealcar_server.transfer.spare import Spare

# as much as the kernel allows: each filling of it takes a turn
_BUFFER: Final = 1 << 20


class Lines:
    """Makes the lines to clients. On the data socket's thread.

    Args:
        meter: told of senders that are somebody else.
        spare: has a ring that is made already.
    """

    def __init__(self, meter: Meter, spare: Spare) -> None:
        self._meter, self._spare = meter, spare
        self._mover = Mover()

    def line(self, sock: sockets.socket, peer: Peer) -> Line | StreamLine:
        """Return the line over a socket that was accepted.

        Raises:
            OSError: no descriptor is left; the peer is closed.
        """
        try:
            sender = OneSender(sock, peer)
        except OSError:
            peer.close()
            raise
        if sock.type is sockets.SOCK_STREAM:
            with contextlib.suppress(OSError):
                sock.setsockopt(sockets.SOL_SOCKET, sockets.SO_SNDBUF, _BUFFER)
            return StreamLine(sock, sender, self._meter, self._mover)
        return Line(sock, sender, self._meter, self._spare)

    def close(self) -> None:
        """Move no byte any more."""
        self._mover.close()


class Newcomers:
    """Connections that were accepted, and wait for their caller's turn to be taken in.

    Most of what somebody sends who connects and hangs up, over and over, never gets so far. On the
    data socket's thread.

    Args:
        of_one: how many of one caller may wait.
        turn: has something called in a caller's turn.
        refused: told of callers of whom too many wait.
    """

    def __init__(
        self,
        of_one: int,
        turn: Callable[[str, Callable[[], None]], None],
        refused: Callable[[Principal, str], None],
    ) -> None:
        self._of_one, self._turn, self._refused = of_one, turn, refused
        self._waiting: Counter[str] = Counter()

    def accept(
        self, listener: sockets.socket, name: str, admit: Callable[[str, sockets.socket], None]
    ) -> None:
        """Accept a connection, and have it taken in when its caller's turn comes.

        Raises:
            BlockingIOError: there is none.
            OSError: none can be accepted.
        """
        sock, _address = listener.accept()
        sock.settimeout(0)
        if said(sock) is Said.END:
            sock.close()
        else:
            self._queue(sock, name, admit)

    def _queue(
        self, sock: sockets.socket, name: str, admit: Callable[[str, sockets.socket], None]
    ) -> None:
        try:
            principal = principal_of(sock, name)
        except DeniedError:
            sock.close()
            return
        account = principal.account
        if self._waiting[account] >= self._of_one:
            sock.close()
            self._refused(principal, "connections")
        else:
            self._waiting[account] += 1
            self._turn(account, partial(self._leave, account, partial(admit, name, sock)))

    def _leave(self, account: str, admit: Callable[[], None]) -> None:
        self._waiting[account] -= 1
        if not self._waiting[account]:
            del self._waiting[account]
        admit()


def peer_with_room(sock: sockets.socket, listener: str) -> Peer:
    """Return who connected, as `peer_of`, if descriptors are left for him; else raise OSError."""
    # his process takes one, and by another it is told that it lives, or who sends each packet: with
    # none left nobody could be told apart, and so nobody be served
    spare = os.dup(sock.fileno())
    try:
        os.close(os.dup(sock.fileno()))
    finally:
        os.close(spare)
    return peer_of(sock, listener)
