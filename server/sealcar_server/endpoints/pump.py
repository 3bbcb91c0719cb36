"""Carries bytes between two sockets, both ways, without blocking and without hoarding.

Each direction holds at most one piece that its target couldn't take yet, and reads no more until
that is gone: so a slow reader slows its writer down, and memory stays bounded.
"""

from __future__ import annotations

import selectors
import socket as sockets
from typing import Final

_PIECE: Final = 256 << 10


class _Direction:
    """From one socket to the other."""

    def __init__(self, source: sockets.socket, target: sockets.socket) -> None:
        self.source: Final = source
        self.target: Final = target
        self.pending = memoryview(b"")
        self.ended = False

    def pull(self) -> None:
        """Read a piece and pass on what the target takes."""
        try:
            piece = self.source.recv(_PIECE)
        except BlockingIOError:
            return
        self.pending = memoryview(piece)
        self.ended = not piece
        self.push()

    def push(self) -> None:
        """Pass on what waits; at its end, say so."""
        try:
            while self.pending:
                self.pending = self.pending[self.target.send(self.pending) :]
        except BlockingIOError:
            return
        if self.ended:
            self.target.shutdown(sockets.SHUT_WR)


class Link:
    """Two sockets that are one connection.

    Args:
        name: the name that the inner socket is bound to.
        uid: who holds the other end of `client`.
        client, inner: connected and owned by the link from now on.
        selector: told what to wait for, with the link as data.

    Raises:
        OSError: the kernel watches no more sockets; both are the caller's still.
    """

    def __init__(
        self,
        name: str,
        uid: int,
        client: sockets.socket,
        inner: sockets.socket,
        selector: selectors.BaseSelector,
    ) -> None:
        self.name: Final = name
        self.uid: Final = uid
        self._selector = selector
        self._directions = (_Direction(client, inner), _Direction(inner, client))
        for socket in (client, inner):
            socket.settimeout(0)
        selector.register(client, selectors.EVENT_READ, self)
        try:
            selector.register(inner, selectors.EVENT_READ, self)
        except OSError:
            selector.unregister(client)
            raise

    def move(self, fd: int, events: int) -> bool:
        """Do what a socket is ready for. False: both have ended, or one can't go on."""
        try:
            for direction in self._directions:
                if events & selectors.EVENT_READ and direction.source.fileno() == fd:
                    direction.pull()
                if events & selectors.EVENT_WRITE and direction.target.fileno() == fd:
                    direction.push()
            if all(one.ended and not one.pending for one in self._directions):
                return False
            forth, back = self._directions
            self._wait(forth, back)
            self._wait(back, forth)
        except OSError:
            return False
        return True

    def close(self) -> None:
        """Close both sockets."""
        for direction in self._directions:
            if direction.source in self._selector.get_map():
                self._selector.unregister(direction.source)
            direction.source.close()

    def _wait(self, out: _Direction, into: _Direction) -> None:
        """Wait for what one socket, the source of `out` and target of `into`, is good for now."""
        socket = out.source
        events = 0
        if not out.ended and not out.pending:
            events |= selectors.EVENT_READ
        if into.pending:
            events |= selectors.EVENT_WRITE
        known = self._selector.get_map().get(socket)
        if known is None:
            if events:
                self._selector.register(socket, events, self)
        elif not events:
            self._selector.unregister(socket)
        elif known.events != events:
            self._selector.modify(socket, events, self)
