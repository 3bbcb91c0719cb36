"""Whose turn it is on a connection of the data socket, what ends a turn badly, and who is told."""

from __future__ import annotations

import enum
from typing import TYPE_CHECKING, Final, Protocol

from sealcar.details import to_detail
from sealcar.errors import SealcarError, WrongStateError
from sealcar.v1 import data_socket_pb2 as pb

if TYPE_CHECKING:
    from sealcar_server.endpoints.connection import Connection

_MAX_MESSAGE: Final = 2000


class Phase(enum.Enum):
    """Whose turn it is."""

    NEW = "attest"
    IDLE = "idle"
    ASKED = "asked"  # the daemon's: something is being opened, finished, committed
    MEMORY = "memory"  # the daemon's: waits for room for a ring
    MAPPING = "mapping"  # the client's: has to map a ring
    MOVING = "moving"  # bytes move
    CLOSING = "closing"  # nobody's: what is under way comes to its end
    CLOSED = "closed"


class Keeper(Protocol):
    """Whoever watches connections for packets."""

    def closing(self, connection: Connection, /) -> None:
        """Stop watching: nothing is to be read any more."""

    def closed(self, connection: Connection, /) -> None:
        """Forget it: everything is freed."""


class ViolationError(Exception):
    """The client broke the protocol: it gets the error, and the connection is closed."""

    def __init__(self, error: SealcarError) -> None:
        super().__init__(error.message)
        self.error = error


def cancelled() -> WrongStateError:
    """Return the answer to `cancel`."""
    return WrongStateError("cancelled by the client")


def short(error: SealcarError, request: str = "") -> pb.DaemonPacket:
    """Return an error, and the id of its request, as a packet that is surely small enough."""
    detail = to_detail(error)
    # not the error's own: several requests can end by one
    detail.request_id = request
    detail.message = detail.message[:_MAX_MESSAGE]
    return pb.DaemonPacket(error=detail)
