"""One connection of the data socket: who it is, whose turn it is, and what it holds.

Everything here runs on the socket's thread, but for `send`, which workers call too.
"""

from __future__ import annotations

import contextlib
import time
from typing import TYPE_CHECKING, Final, TypeVar

import structlog

from sealcar.errors import (
    DeniedError,
    InvalidRequestError,
    SealcarError,
    TimedOutError,
    UnavailableError,
    WrongStateError,
)
from sealcar.v1 import data_socket_pb2 as pb
from sealcar_server import spans
from sealcar_server.endpoints import protocol, request_ids
from sealcar_server.endpoints.data_rings import RingKeeper
from sealcar_server.endpoints.data_turns import Keeper, Phase, ViolationError, cancelled, short

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from sealcar_server.access.peers import Peer
    from sealcar_server.access.sessions import Session
    from sealcar_server.endpoints.data_door import Door
    from sealcar_server.endpoints.data_line import Line
    from sealcar_server.endpoints.data_operations import Operation
    from sealcar_server.endpoints.stream_line import StreamLine

_log: Final = structlog.get_logger("sealcar.data")
_Result = TypeVar("_Result")
_ATTEST_WITHIN: Final = 10.0
_MAX_RELEASE: Final = 100
# of these nothing is logged in passing, and what a transfer logs by itself has its request's id
_OFTEN: Final = frozenset({"free", "piece"})
# what brings begun work to its end, and what probes ask
_WHILE_DRAINING: Final = frozenset({"abort", "commit", "state"})
# what a probe in the daemon's own container may ask: it runs as the daemon's own user
_WITHOUT_SESSION: Final = "state"


class Connection:
    """See the module. `handlers` take the requests that may come when it is idle.

    Args:
        line: to the client; owned from now on.
        peer: who connected; owned from now on.
        door: what is shared.
        keeper: told of the end.
    """

    def __init__(self, line: Line | StreamLine, peer: Peer, door: Door, keeper: Keeper) -> None:
        self.line = line
        self._keeper = keeper
        self.send = self.line.send
        self._peer_is_ours = True
        self.peer = peer
        self.door = door
        self.session: Session | None = None
        self.phase = Phase.NEW
        self.since = time.monotonic()
        self.rings = RingKeeper(self)
        self.operation: Operation | None = None
        self.cancelled = False
        self._request_id = self._asked = ""
        self._span = spans.NOBODYS
        self.holds_transaction = False
        self.handlers: Mapping[str, Callable[[pb.ClientPacket], None]] = {}

    def readable(self) -> None:
        """Take one packet; every failure ends in a typed error, and at worst in a close."""
        if self.phase in (Phase.CLOSING, Phase.CLOSED):
            return
        try:
            packet = self.line.receive()
            if packet is None:
                self.close(None)
                return
            self.since = time.monotonic()
            self._dispatch(packet)
        except BlockingIOError:
            return
        except (ViolationError, InvalidRequestError, DeniedError) as error:
            reason = error.error if isinstance(error, ViolationError) else error
            if isinstance(error, DeniedError):
                self.door.services.refused(self.peer.principal, "sender")
            self._complain(reason)
            self.close(reason)
        except OSError:
            self.close(None)

    def answer(self, packet: pb.DaemonPacket) -> None:
        """End a request with its answer."""
        if self.phase in (Phase.CLOSING, Phase.CLOSED):
            self.settle()
            return
        self.phase = Phase.IDLE
        self.since = time.monotonic()
        self._span.end()
        try:
            self.send(packet)
        except UnavailableError as error:
            self.close(error)

    def refuse(self, error: SealcarError) -> None:
        """End a request with an error; the log has more of it by the id that goes with it."""
        self._note("request refused", error)
        self._span.end(error)
        self.answer(short(error, self._request_id))

    def ask(self, work: Callable[[], pb.DaemonPacket]) -> None:
        """Do what may block elsewhere, and answer with what comes of it."""
        self.phase = Phase.ASKED

        def done(packet: pb.DaemonPacket | None, error: SealcarError | None) -> None:
            if packet is not None:
                self.answer(packet)
            elif error is not None:
                self.refuse(error)

        self.chore(work, done)

    def chore(
        self,
        work: Callable[[], _Result],
        done: Callable[[_Result | None, SealcarError | None], None],
    ) -> None:
        """Do something that may block; `done` runs on the socket's thread with what came of it."""
        self.door.chore(self.peer.principal.account, work, done)

    def close(self, reason: SealcarError | None) -> None:
        """Say why if there is a reason, free what is held, and close once nothing is under way."""
        if self.phase in (Phase.CLOSING, Phase.CLOSED):
            return
        if reason is not None:
            with contextlib.suppress(UnavailableError):
                self.send(short(reason, self._request_id))
            self._note("connection closed", reason)
        busy = self.phase is Phase.ASKED
        self.phase = Phase.CLOSING
        self._span.end(reason)
        self._keeper.closing(self)
        self.line.hang_up()
        operation = self.operation
        if operation is not None:
            operation.stop(reason or UnavailableError("the client is gone"))
        elif not busy:
            self.settle()

    def settle(self) -> None:
        """Free everything of a closing connection: no thread but this one uses it any more."""
        if self.phase is not Phase.CLOSING or self.operation is not None:
            return
        self.phase = Phase.CLOSED
        # in this order: the line moves bytes of rings that aren't shared
        self.line.close()
        self.rings.close()
        self._keeper.closed(self)
        if self.session is not None:
            self.door.unfollow(self.session, self.close)
            self.door.services.sessions.leave(self)
        elif self._peer_is_ours:
            self.peer.close()

    def check_patience(self, now: float) -> None:
        """End what has waited too long. Called now and then."""
        waited = now - self.since
        limits = self.door.limits
        if self.phase is Phase.NEW and waited > _ATTEST_WITHIN:
            self.close(TimedOutError("attest has to come first, and soon"))
        elif self.phase is Phase.MEMORY and waited > limits.wait:
            self.rings.give_up()
        elif self.phase is Phase.MAPPING and waited > limits.idle_timeout:
            self.close(TimedOutError("what was handed over wasn't acknowledged in time"))
        elif self.phase is Phase.MOVING and waited > limits.idle_timeout:
            if self.operation is not None and self.operation.waits_for_client:
                self.close(TimedOutError("the client left its transfer waiting for too long"))
            else:
                self.since = now

    def fileno(self) -> int:
        """Return the socket's descriptor."""
        return self.line.fileno()

    def _complain(self, reason: SealcarError) -> None:
        named = request_ids.fields(self._request_id, self._span)
        self._tell(_log.warning, "client broke the protocol", reason=reason.message, **named)

    def _note(self, event: str, error: SealcarError) -> None:
        # not by the context: what ends a transfer may come from no request's
        named = request_ids.fields(self._request_id, self._span)
        self._tell(_log.info, event, request=self._asked, error=str(error), **named)

    def _tell(self, write: Callable[..., object], event: str, **values: str) -> None:
        who = self.peer.principal
        ids = {"uid": who.uid, "pid": self.peer.pid}
        self.door.lines.tell(write, who.account, event, listener=who.listener, **ids, **values)

    def _dispatch(self, packet: pb.ClientPacket) -> None:
        kind = packet.WhichOneof("packet") or ""
        if kind not in _OFTEN and self.phase is not Phase.IDLE:
            # what comes while it is idle is the next request's, if anybody's
            request_ids.begin(self._request_id, self._span)
        if self.phase is Phase.NEW:
            self._attest(packet)
        elif self.session is None and kind != _WITHOUT_SESSION:
            self._turn_away()
        elif kind in self.handlers:
            self._request(kind, packet)
        elif kind == "ring_mapped":
            self.rings.mapped()
        elif kind == "free":
            self.rings.take_back(packet.free.slots)
        elif kind == "piece" and self.operation is not None:
            self.operation.piece(packet.piece)
        elif kind == "segment_received" and self._segment_is_under_way():
            self.phase = Phase.IDLE
            self._span.end()
        elif kind == "cancel":
            self._cancel()
        else:
            raise ViolationError(WrongStateError(f"{kind or 'an unknown packet'} is out of turn"))

    def _request(self, kind: str, packet: pb.ClientPacket) -> None:
        if self.phase is not Phase.IDLE:
            raise ViolationError(WrongStateError(f"{kind} came before the last request ended"))
        self.cancelled = False
        self._request_id, self._asked = request_ids.made(), kind
        tracing = self.door.services.tracing
        self._span = tracing.begin(kind, packet.traceparent, packet.tracestate)
        self._span.tell(request_id=self._request_id)
        request_ids.begin(self._request_id, self._span)
        if self.door.draining and kind not in _WHILE_DRAINING:
            self.refuse(UnavailableError("the daemon is stopping", retry_after=1.0))
            return
        self.rings.new_request()
        try:
            if kind not in _WHILE_DRAINING:
                self.door.services.rates.take(self.peer.principal.account)
            self.handlers[kind](packet)
        except SealcarError as error:
            self.refuse(error)

    def _attest(self, packet: pb.ClientPacket) -> None:
        if packet.WhichOneof("packet") != "attest":
            raise ViolationError(WrongStateError("attest has to come first"))
        hello = packet.attest
        if len(hello.release.encode()) > _MAX_RELEASE:
            raise InvalidRequestError(f"release may have at most {_MAX_RELEASE} bytes")
        try:
            spoken = protocol.common(hello.protocol)
        except SealcarError as error:
            raise ViolationError(error) from error
        services = self.door.services
        if not services.sessions.is_own(self.peer):
            self._join()
        attested = pb.Attested(
            protocol=spoken,
            release=services.release,
            isolation=services.isolation,
            session=self.peer.assurance,
            segments=self.line.delivery == "ring",
        )
        self.answer(pb.DaemonPacket(attested=attested))

    def _join(self) -> None:
        self._peer_is_ours = False
        try:
            self.session = self.door.services.sessions.join(self.peer, self)
        except SealcarError as error:
            raise ViolationError(error) from error
        self.door.follow(self.session, self.close)

    def _turn_away(self) -> None:
        """Refuse, and count as refused, whoever has no session."""
        try:
            self.door.services.sessions.admit(self.peer)
        except SealcarError as error:
            raise ViolationError(error) from error
        raise ViolationError(WrongStateError("there is no session"))

    def _segment_is_under_way(self) -> bool:
        # with a ring under way there is a transfer that waits for it
        return self.phase is Phase.MAPPING and self.operation is None

    def _cancel(self) -> None:
        # when it is idle again, the transfer's end came first
        self.cancelled = self.phase is not Phase.IDLE
        if self.operation is not None:
            self.operation.stop(cancelled())
