"""A segment's way to one client, as its connection sees it."""

from __future__ import annotations

import os
import time
from typing import TYPE_CHECKING

from sealcar.errors import ExhaustedError, SealcarError, UnavailableError
from sealcar.v1 import data_socket_pb2 as pb
from sealcar_server.endpoints.data_operations import Operation
from sealcar_server.endpoints.data_turns import Phase
from sealcar_server.service.failing import place_of
from sealcar_server.transfer.shelved import Wanted

if TYPE_CHECKING:
    from sealcar_server.endpoints.connection import Connection
    from sealcar_server.service.payload_source import PayloadSource
    from sealcar_server.transfer.segments import Segment


class SegmentOperation(Operation):
    """One request for a segment: waits until it is complete, then hands it over once.

    Args:
        connection: that asked.
        opened: by the caller's own package's key, which is what gives him a right to the bytes:
            equal identities mean equal bytes under one key.
    """

    client_writes = False

    def __init__(self, connection: Connection, opened: PayloadSource) -> None:
        super().__init__(connection, opened.permit)
        self._scope, self._payload = opened.scope, opened.payload
        principal = connection.peer.principal
        self.who = connection.session
        self.what = (principal.account, opened.scope.package, opened.scope.component)
        self.permit = opened.permit
        self._wanted = Wanted(
            (opened.payload.identity, opened.size), principal.account, opened.size, opened.reader
        )

    @property
    def waits_for_client(self) -> bool:
        """Whether nothing can go on before the client does something."""
        return False

    def begin(self) -> None:
        """Ask for it; whether it is there already or not, the client hears of it."""
        self._connection.phase = Phase.ASKED
        try:
            self._connection.door.shelf.get(self._wanted, self)
        except SealcarError as error:
            self._ended(error)

    def take(self, segment: Segment, /) -> bool:
        """Hand it over, if it is still wanted and allowed."""
        connection = self._connection
        try:
            self.permit.check()
            descriptor = segment.descriptor()
        except SealcarError as error:
            self._ended(error)
            return False
        try:
            connection.send(pb.DaemonPacket(segment=pb.Segment(size=segment.size)), descriptor)
        except UnavailableError as error:
            connection.close(error)
            return False
        finally:
            os.close(descriptor)
        # it has ended: what was handed over can't be taken back
        self._leave("read", segment.size, None, "segment")
        connection.phase = Phase.MAPPING
        connection.since = time.monotonic()
        if connection.session is not None:
            connection.session.received = True
        return True

    def fail(self, error: SealcarError, /) -> None:
        """Tell the client that there will be none."""
        self._ended(error)

    def progress(self, filled: int, /) -> None:
        """Let the client know that it is being worked on."""
        filling = pb.Filling(filled=filled, size=self._payload.size)
        try:
            self._connection.send(pb.DaemonPacket(filling=filling))
        except UnavailableError as error:
            self._connection.close(error)

    def stop(self, reason: SealcarError) -> None:
        """End it early."""
        if not self._stopped:
            self._stopped = True
            self._connection.door.shelf.leave(self._wanted, self)
            self._ended(reason)

    def _ended(self, error: SealcarError | None) -> None:
        self._stopped = True
        if self._connection.operation is not self:
            return
        failure = error or ExhaustedError("there is no segment")
        self._leave("read", self._payload.size, failure)
        place = place_of(self._scope)
        self._connection.refuse(failure.at(phase="read", payload=self._payload.name, **place))
