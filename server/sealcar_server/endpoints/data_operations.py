"""Transfers as their connection sees them: one at a time, each with exactly one end."""

from __future__ import annotations

import abc
import time
from typing import TYPE_CHECKING

from sealcar.errors import SealcarError, WrongStateError
from sealcar_server.endpoints.data_turns import ViolationError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from sealcar.v1 import data_socket_pb2 as pb
    from sealcar_server.access.permit import Permit
    from sealcar_server.endpoints.connection import Connection
    from sealcar_server.transfer.flow import Flow


class Operation(abc.ABC):
    """One transfer of one connection. On the socket's thread, but for what flows call."""

    client_writes: bool

    def __init__(self, connection: Connection, permit: Permit) -> None:
        self._connection = connection
        self._permit = permit
        self._flow: Flow | None = None
        self._stopped = self._renewing = False
        self._begun = time.monotonic()
        connection.operation = self
        connection.door.begun(connection.peer.principal)

    @property
    @abc.abstractmethod
    def waits_for_client(self) -> bool:
        """Whether nothing can go on before the client does something."""

    def piece(self, piece: pb.Piece) -> None:
        """Take a piece that the client announces.

        Raises:
            ViolationError: not now.
        """
        raise ViolationError(WrongStateError(f"piece at {piece.offset} without a write"))

    def refill(self, slots: Sequence[int]) -> None:  # noqa: B027  (only reads have a use for it)
        """Use slots of the read ring that the client gave back."""

    def check(self) -> None:
        """End it if the client lost the right to it."""
        try:
            self._permit.check()
        except SealcarError as error:
            self.stop(error)

    def renew(self) -> None:
        """End it if its key can't be had any more. Called now and then."""
        if not self._renewing:
            self._renewing = True
            self._connection.chore(self._permit.renew, self._renewed)

    def _renewed(self, _: None, error: SealcarError | None) -> None:
        self._renewing = False
        if error is not None and self._connection.operation is self:
            self.stop(error)

    def stop(self, reason: SealcarError) -> None:
        """End it early; what is under way on other threads comes to its end first."""
        if self._flow is not None:
            self._flow.stop(reason)
        elif not self._stopped:
            self._stopped = True
            self._connection.rings.cancel()
            self._ended(reason)

    def _end_soon(self, error: SealcarError | None) -> None:
        connection = self._connection
        connection.door.post(lambda: self._ended(error), connection.peer.principal.account)

    @abc.abstractmethod
    def _ended(self, error: SealcarError | None) -> None:
        """Clean up and answer, now that no worker is inside any more."""

    def _leave(
        self, direction: str, size: int, error: SealcarError | None, delivery: str = ""
    ) -> None:
        connection = self._connection
        delivery = delivery or connection.line.delivery
        connection.operation = None
        connection.door.ended(connection.peer.principal)
        meter = connection.door.services.meter
        meter.transferred(direction, delivery, time.monotonic() - self._begun)
        if error is None:
            meter.moved(direction, delivery, size)
