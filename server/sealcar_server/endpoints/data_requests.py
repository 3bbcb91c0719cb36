"""The requests of the data socket: translated, passed to the service, answered."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, TypeAlias, TypeVar

from sealcar.errors import InvalidRequestError, SealcarError
from sealcar.v1 import data_socket_pb2 as pb
from sealcar.v1 import payloads_pb2
from sealcar_server.endpoints import messages
from sealcar_server.endpoints.data_reading import ReadOperation
from sealcar_server.endpoints.data_segments import SegmentOperation
from sealcar_server.endpoints.data_turns import Phase, cancelled
from sealcar_server.endpoints.data_writing import WriteOperation
from sealcar_server.service.failing import place_of

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from sealcar.v1 import common_pb2
    from sealcar_server.access.permit import Permit
    from sealcar_server.endpoints.connection import Connection
    from sealcar_server.sealing.scratch import Scratch
    from sealcar_server.service.payload_source import PayloadSource
    from sealcar_server.service.values import ScopeKey
    from sealcar_server.service.writing import PayloadSink

_PAGE: Final = 60_000
_Writing: TypeAlias = "tuple[Permit, PayloadSink, Mapping[str, str | int]]"
_Result = TypeVar("_Result")


class Requests:
    """What one connection may ask for.

    Args:
        connection: whose requests they are.
        state: tells how the daemon is.
    """

    def __init__(self, connection: Connection, state: Callable[[], pb.StateResponse]) -> None:
        self._connection = connection
        self._door = connection.door
        self._payloads = connection.door.services.payloads
        self._principal = connection.peer.principal
        self._state = state

    def handlers(self) -> Mapping[str, Callable[[pb.ClientPacket], None]]:
        """Return the handler of each request by the name of its packet."""
        return {
            "open": self._open,
            "read": self._read,
            "segment": self._segment,
            "begin": self._begin,
            "write": self._write,
            "commit": self._commit,
            "abort": self._abort,
            "state": self._tell_state,
        }

    def _open(self, packet: pb.ClientPacket) -> None:
        request = packet.open
        key = messages.scope_key(request.scope)

        def work() -> pb.DaemonPacket:
            opened = self._payloads.open(self._principal, key)
            page = messages.opened_message(opened, request.page_token, _PAGE)
            if page.ByteSize() > _PAGE:
                raise InvalidRequestError(
                    "this variant's executor_info is too long for a packet; open it over gRPC"
                )
            return pb.DaemonPacket(opened=page)

        self._connection.ask(work)

    def _read(self, packet: pb.ClientPacket) -> None:
        request = packet.read
        if request.offset or request.HasField("length"):
            raise InvalidRequestError("the data socket reads whole payloads; a part comes by gRPC")
        if self._connection.rings.lent:
            raise InvalidRequestError("slots of the last read weren't given back")
        self._source(request.scope, request.name, self._opened)

    def _segment(self, packet: pb.ClientPacket) -> None:
        if self._connection.line.delivery != "ring":
            raise InvalidRequestError("a stream hands no memory over; `read` gives the bytes")
        self._source(packet.segment.scope, packet.segment.name, self._share)

    def _source(
        self, scope: common_pb2.Scope, name: str, then: Callable[[PayloadSource], None]
    ) -> None:
        """Open a payload, here if that can't take long, and go on with it."""
        key = messages.scope_key(scope)
        if self._door.is_warm(key) and self._payloads.at_hand(key, name):
            then(self._open_payload(key, name, self._door.scratch))
            return

        def work() -> PayloadSource:
            return self._open_payload(key, name, self._door.chore_scratch())

        def warmed(opened: PayloadSource) -> None:
            self._door.warmed(key)
            then(opened)

        self._prepare(work, warmed, lambda opened: opened.close())

    def _open_payload(self, key: ScopeKey, name: str, scratch: Scratch) -> PayloadSource:
        return self._payloads.read(self._principal, key, name, scratch, at_once=True)

    def _share(self, opened: PayloadSource) -> None:
        try:
            # the policy may have changed while it was being opened
            opened.permit.check()
            self._door.admit(self._principal)
        except SealcarError:
            opened.close()
            raise
        SegmentOperation(self._connection, opened).begin()

    def _opened(self, opened: PayloadSource) -> None:
        try:
            # the policy may have changed while it was being opened
            opened.permit.check()
            if opened.reader.whole is None:
                self._door.admit(self._principal)
        except SealcarError:
            opened.close()
            raise
        if self._connection.session is not None:
            self._connection.session.received = True
        data = opened.reader.whole
        if data is None:
            self._connection.rings.get(ReadOperation(self._connection, opened))
            return
        opened.close()
        packet = pb.DaemonPacket()
        # in place: a message that is put into another one is copied, with all that is in it
        packet.reading.size, packet.reading.data = len(data), data
        self._connection.answer(packet)
        self._door.services.meter.moved("read", "packet", len(data))

    def _begin(self, packet: pb.ClientPacket) -> None:
        key = messages.scope_key(packet.begin.scope)
        session = self._connection.session

        def work() -> pb.DaemonPacket:
            transaction = self._payloads.begin(self._principal, key, session)
            begun = payloads_pb2.BeginResponse(
                transaction=transaction.id, scope=messages.scope_message(transaction.scope)
            )
            return pb.DaemonPacket(begun=begun)

        self._connection.holds_transaction = True
        self._connection.ask(work)

    def _write(self, packet: pb.ClientPacket) -> None:
        request = packet.write
        kind = messages.kind_name(request.kind)
        self._door.admit(self._principal)
        size = request.size if request.HasField("size") else None

        def work() -> _Writing:
            transaction = self._payloads.transaction(self._principal, request.transaction)
            permit = self._payloads.writing(self._principal, transaction)
            place = {**place_of(transaction.scope), "payload": request.name}
            return permit, transaction.create(request.name, kind, size), place

        def then(made: _Writing) -> None:
            try:
                self._door.admit(self._principal)
            except SealcarError:
                discard(made)
                raise
            operation = WriteOperation(self._connection, *made)
            self._connection.rings.get(operation)
            # the policy may have changed while it was being begun
            operation.check()

        def discard(made: _Writing) -> None:
            self._connection.chore(made[1].abort, lambda _, __: None)

        self._prepare(work, then, discard)

    def _commit(self, packet: pb.ClientPacket) -> None:
        request = packet.commit
        values = messages.commit_values(request)

        def work() -> pb.DaemonPacket:
            scope = self._payloads.commit(self._principal, request.transaction, values)
            committed = payloads_pb2.CommitResponse(scope=messages.scope_message(scope))
            return pb.DaemonPacket(committed=committed)

        self._connection.ask(work)

    def _abort(self, packet: pb.ClientPacket) -> None:
        request = packet.abort

        def work() -> pb.DaemonPacket:
            self._payloads.abort(self._principal, request.transaction)
            return pb.DaemonPacket(aborted=payloads_pb2.AbortResponse())

        self._connection.ask(work)

    def _tell_state(self, packet: pb.ClientPacket) -> None:  # noqa: ARG002  (it asks nothing more)
        self._connection.answer(pb.DaemonPacket(state=self._state()))

    def _prepare(
        self,
        work: Callable[[], _Result],
        then: Callable[[_Result], None],
        discard: Callable[[_Result], None],
    ) -> None:
        """Open something elsewhere, then begin a transfer with it unless that isn't wanted now."""
        connection = self._connection
        connection.phase = Phase.ASKED

        def done(result: _Result | None, error: SealcarError | None) -> None:
            if result is None:
                connection.refuse(error or cancelled())
            elif connection.phase is Phase.CLOSING or connection.cancelled:
                discard(result)
                connection.refuse(cancelled())
            else:
                self._continue(then, result)

        self._connection.chore(work, done)

    def _continue(self, then: Callable[[_Result], None], result: _Result) -> None:
        try:
            then(result)
        except SealcarError as error:
            self._connection.refuse(error)
