"""The servicer of `sealcar.v1.Payloads`: messages to values of the service, and back."""

from __future__ import annotations

import math
import time
from contextlib import contextmanager
from queue import Empty, SimpleQueue
from typing import TYPE_CHECKING, Final, Protocol

from sealcar.errors import InvalidRequestError, UnavailableError, WrongStateError
from sealcar.v1 import payloads_pb2 as pb
from sealcar.v1 import payloads_pb2_grpc
from sealcar_server.endpoints import messages
from sealcar_server.endpoints.reporting import Reporting
from sealcar_server.sealing.scratch import Scratch
from sealcar_server.service.failing import during, place_of
from sealcar_server.service.writing import OrderedSealer

if TYPE_CHECKING:
    from collections.abc import Iterator

    import grpc

    from sealcar_server.access.principal import Principal
    from sealcar_server.service.payload_source import PayloadSource
    from sealcar_server.service.payloads import Payloads
    from sealcar_server.service.prefetching import Prefetcher

PIECE: Final = 512 << 10  # of a message to the client: the fastest size over gRPC
MAX_DATA: Final = 1 << 20  # of a message from the client
_SETTLE: Final = 0.02  # seconds


class Meter(Protocol):
    """Takes the figures."""

    def moved(self, direction: str, delivery: str, count: int, /) -> None:
        """Count plaintext bytes."""


class Callers(Protocol):
    """Tells callers apart; each server has its own."""

    def __call__(self, context: grpc.ServicerContext, /) -> Principal:
        """Return who calls, or raise a SealcarError."""


class Scratches:
    """Private memory for the calls that run; as many as ever ran at once."""

    def __init__(self) -> None:
        self._free: SimpleQueue[Scratch] = SimpleQueue()

    @contextmanager
    def one(self) -> Iterator[Scratch]:
        """Lend one; it is wiped when it comes back."""
        try:
            scratch = self._free.get_nowait()
        except Empty:
            scratch = Scratch()
        try:
            yield scratch
        finally:
            scratch.wipe()
            self._free.put(scratch)


class PayloadsServicer(payloads_pb2_grpc.PayloadsServicer):
    """Reads and writes payloads for callers that can't take descriptors.

    Args:
        payloads: does it.
        caller: gives the principal behind a call.
        meter: told the bytes.
        prefetcher: gets variants ready.
    """

    def __init__(
        self, payloads: Payloads, caller: Callers, meter: Meter, prefetcher: Prefetcher
    ) -> None:
        self._payloads, self._prefetcher = payloads, prefetcher
        self._caller = caller
        self._meter = meter
        self._scratches = Scratches()

    def Open(self, request: pb.OpenRequest, context: grpc.ServicerContext) -> pb.OpenResponse:  # noqa: N802  (wire name)
        """Resolve a scope and list a page of its payloads."""
        scope = messages.scope_key(request.scope)
        opened = self._payloads.open(self._caller(context), scope)
        return messages.opened_message(opened, request.page_token)

    def Read(  # noqa: N802  (wire name)
        self, request: pb.ReadRequest, context: grpc.ServicerContext
    ) -> Iterator[pb.ReadResponse]:
        """Send a payload's plaintext, each piece after it was found authentic."""
        caller, scope = self._caller(context), messages.scope_key(request.scope)
        # of a part it isn't sure that anything is read, and so checked, after the opening
        whole = not request.offset and not request.HasField("length")
        with (
            self._scratches.one() as scratch,
            self._payloads.read(caller, scope, request.name, scratch, at_once=whole) as source,
            during("read", payload=request.name, **place_of(source.scope)),
        ):
            start, end = _range(request, source.size)
            for piece in _pieces(source, start, end, scratch):
                source.permit.check()
                source.permit.renew()
                self._meter.moved("read", "grpc", len(piece))
                yield pb.ReadResponse(data=piece)

    def Begin(self, request: pb.BeginRequest, context: grpc.ServicerContext) -> pb.BeginResponse:  # noqa: N802  (wire name)
        """Start a transaction that expires when nobody uses it."""
        scope = messages.scope_key(request.scope)
        transaction = self._payloads.begin(self._caller(context), scope)
        return pb.BeginResponse(
            transaction=transaction.id,
            scope=messages.scope_message(transaction.scope),
            ttl_seconds=math.ceil(self._payloads.ttl),
        )

    def Write(  # noqa: N802  (wire name)
        self, request_iterator: Iterator[pb.WriteRequest], context: grpc.ServicerContext
    ) -> pb.WriteResponse:
        """Seal one payload while it arrives."""
        first = next(request_iterator, None)
        if first is None or first.WhichOneof("step") != "begin":
            raise WrongStateError("a write starts with begin").at(phase="write")
        begin = first.begin
        kind = messages.kind_name(begin.kind)
        size = begin.size if begin.HasField("size") else None
        caller = self._caller(context)
        transaction = self._payloads.transaction(caller, begin.transaction)
        permit = self._payloads.writing(caller, transaction)
        with (
            transaction.create(begin.name, kind, size) as sink,
            self._scratches.one() as scratch,
            during("write", payload=begin.name, **place_of(transaction.scope)),
        ):
            sealer = OrderedSealer(sink.writer, scratch)
            for data in _data(request_iterator):
                permit.check()
                permit.renew()
                self._meter.moved("write", "grpc", len(data))
                sealer.feed(data)
                if size is not None and sealer.size > size:
                    raise InvalidRequestError(f"more bytes came than the {size} declared")
            sealer.finish()
            _require_alive(context, wait=size is None)
            return pb.WriteResponse(payload=messages.payload_message(sink.finish()))

    def Commit(self, request: pb.CommitRequest, context: grpc.ServicerContext) -> pb.CommitResponse:  # noqa: N802  (wire name)
        """Publish a transaction."""
        caller, values = self._caller(context), messages.commit_values(request)
        scope = self._payloads.commit(caller, request.transaction, values)
        return pb.CommitResponse(scope=messages.scope_message(scope))

    def Abort(self, request: pb.AbortRequest, context: grpc.ServicerContext) -> pb.AbortResponse:  # noqa: N802  (wire name)
        """Throw a transaction away."""
        self._payloads.abort(self._caller(context), request.transaction)
        return pb.AbortResponse()

    def Prefetch(  # noqa: N802  (wire name)
        self, request: pb.PrefetchRequest, context: grpc.ServicerContext
    ) -> Iterator[pb.PrefetchResponse]:
        """Get a variant ready, telling how far it is."""
        caller, scope = self._caller(context), messages.scope_key(request.scope)
        work = Reporting(
            lambda report: self._prefetcher.prefetch(caller, scope, report, shared=request.shared)
        )
        for step in work.steps():
            progress = pb.PrefetchProgress(done=step.done, total=step.total, payload=step.payload)
            yield pb.PrefetchResponse(progress=progress)
        yield pb.PrefetchResponse(prefetched=messages.prefetched_message(work.result()))


def _require_alive(context: grpc.ServicerContext, *, wait: bool) -> None:
    """Tell a client that has said all from one that is gone: to both, no more messages come.

    gRPC tells of the end of messages and of the end of the call one right after the other. Without
    a declared size nothing else shows that bytes are missing.
    """
    if wait:
        time.sleep(_SETTLE)
    if not context.is_active():
        raise UnavailableError("the client is gone")


def _range(request: pb.ReadRequest, size: int) -> tuple[int, int]:
    if request.offset > size:
        raise InvalidRequestError(f"offset {request.offset} is beyond the payload's {size} bytes")
    if not request.HasField("length"):
        return request.offset, size
    end = request.offset + request.length
    if end > size:
        raise InvalidRequestError(f"the payload has {size} bytes, {end} were asked for")
    return request.offset, end


def _pieces(source: PayloadSource, start: int, end: int, scratch: Scratch) -> Iterator[bytes]:
    if source.reader.whole is not None:
        # opening it decrypted all of it
        if start < end:
            yield source.reader.whole[start:end]
        return
    layout = source.reader.layout
    while start < end:
        span = source.reader.read_segment(layout.segment_of(start), scratch)
        stop = min(end, span.plain_at + span.plain_size)
        for at in range(start, stop, PIECE):
            last = min(at + PIECE, stop)
            yield bytes(scratch.plain[at - span.plain_at : last - span.plain_at])
        start = stop


def _data(requests: Iterator[pb.WriteRequest]) -> Iterator[bytes]:
    for request in requests:
        if request.WhichOneof("step") != "data":
            raise WrongStateError("after begin only data may follow")
        if not 1 <= len(request.data) <= MAX_DATA:
            raise InvalidRequestError(f"a message's data must have 1 to {MAX_DATA} bytes")
        yield request.data
