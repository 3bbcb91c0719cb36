"""Connections that were accepted and have said nothing yet.

Every gRPC client sends its preface first. Until then a connection costs a descriptor and a place
in its uid's allowance: no handle on its process, no session, no connection to the inner server. So
who connects and hangs up, over and over, makes the daemon work as little as can be.
"""

from __future__ import annotations

import contextlib
import selectors
import socket as sockets
import time
from dataclasses import dataclass
from enum import Enum, auto
from typing import TYPE_CHECKING, Final

import structlog

from sealcar.errors import SealcarError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from sealcar_server.endpoints.refusal_lines import RefusalLines

_REFUSED: Final = "connection refused"
_log: Final = structlog.get_logger("sealcar.relay")


class Said(Enum):
    """What came from a connection so far."""

    NOTHING = auto()
    BYTES = auto()
    END = auto()


@dataclass(frozen=True, eq=False)
class Arrival:
    """One that waits for its first byte.

    Attributes:
        client: the accepted socket, owned by whoever holds this value.
        listener: the name of where it was accepted.
        uid: who connected.
        until: when its time is up, of `time.monotonic()`.
    """

    client: sockets.socket
    listener: str
    uid: int
    until: float


class Arrivals:
    """All that wait.

    Args:
        selector: told to wait for the first byte, with the arrival as data.
        patience: seconds for which a connection may say nothing.
    """

    def __init__(self, selector: selectors.BaseSelector, patience: float) -> None:
        self._selector = selector
        self._patience = patience
        self._waiting: set[Arrival] = set()

    def add(self, client: sockets.socket, listener: str, uid: int) -> None:
        """Wait for the first byte of one."""
        arrival = Arrival(client, listener, uid, time.monotonic() + self._patience)
        self._selector.register(client, selectors.EVENT_READ, arrival)
        self._waiting.add(arrival)

    def take(self, arrival: Arrival) -> bool:
        """Wait for it no more: its socket is the caller's now. False: it was ended already."""
        if arrival not in self._waiting:
            return False
        self._waiting.discard(arrival)
        self._selector.unregister(arrival.client)
        return True

    def end_late(self, now: float) -> list[Arrival]:
        """Close those whose time is up, and return them."""
        late = [one for one in self._waiting if one.until <= now]
        for arrival in late:
            self.take(arrival)
            arrival.client.close()
        return late


def said(client: sockets.socket) -> Said:
    """Look, without taking it, at what a non-blocking socket received first."""
    try:
        return Said.BYTES if client.recv(1, sockets.MSG_PEEK) else Said.END
    except BlockingIOError:
        return Said.NOTHING
    except OSError:
        return Said.END


@contextlib.contextmanager
def closed_if_refused(client: sockets.socket, listener: str, lines: RefusalLines) -> Iterator[None]:
    """Close a connection with which something goes wrong, and say so."""
    try:
        yield
    except SealcarError as error:
        client.close()
        lines.tell(_log.info, listener, _REFUSED, listener=listener, error=error.message)
    except OSError as error:
        client.close()
        reason = error.strerror or type(error).__name__
        lines.tell(_log.warning, listener, _REFUSED, listener=listener, error=reason)
