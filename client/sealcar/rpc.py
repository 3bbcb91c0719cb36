"""A gRPC channel to one daemon: failures as sealcar's own errors."""

from __future__ import annotations

import os
import threading
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final, Protocol, Self

import grpc
from grpc_status import rpc_status

from sealcar import details, errors
from sealcar.announcing import announced
from sealcar.v1 import common_pb2

if TYPE_CHECKING:
    from collections.abc import Hashable, Iterator

OPTIONS: Final = (
    ("grpc.max_receive_message_length", 64 << 20),  # a package of very many payloads in one answer
    ("grpc.enable_http_proxy", 0),
    ("grpc.use_local_subchannel_pool", 1),
)
_WITHOUT_DETAIL: Final[dict[grpc.StatusCode, type[errors.SealcarError]]] = {
    grpc.StatusCode.CANCELLED: errors.UnavailableError,
    grpc.StatusCode.RESOURCE_EXHAUSTED: errors.ExhaustedError,
    grpc.StatusCode.PERMISSION_DENIED: errors.DeniedError,
    grpc.StatusCode.NOT_FOUND: errors.NotFoundError,
    grpc.StatusCode.INVALID_ARGUMENT: errors.InvalidRequestError,
}


class Cancellable(Protocol):
    """A call under way."""

    def cancel(self) -> bool:
        """End it."""


class Line(Protocol):
    """The way to a daemon, and how to know that it is the right one."""

    def open(self, timeout: float) -> grpc.Channel:
        """Return a channel, on which nothing is sent to anybody else; or raise a SealcarError."""

    def state(self) -> Hashable:
        """Return what differs whenever a channel opened now would be another one than before."""

    def unreachable(self, reason: str) -> errors.UnavailableError:
        """Say that no daemon answers, and what to do about it."""


class Channel:
    """One daemon, connected when first asked.

    Args:
        line: leads to it.
        timeout: seconds for one answer, and between two messages of a stream.
    """

    def __init__(self, line: Line, *, timeout: float) -> None:
        self.timeout = timeout
        self._line = line
        self._state: Hashable = None
        self._channel: grpc.Channel | None = None
        self._before: list[grpc.Channel] = []  # calls may still be under way there
        self._process = os.getpid()
        self._lock = threading.Lock()

    def get(self) -> grpc.Channel:
        """Return the channel, made on the first call.

        Raises:
            UnavailableError: nobody listens, or somebody else.
            ConfigurationError: what is needed to connect can't be used.
            WrongStateError: the process was forked since; gRPC doesn't survive that.
        """
        if os.getpid() != self._process:
            raise errors.WrongStateError(
                "this process was forked from one that had this client; connect again in the child"
            )
        with self._lock:
            state = self._line.state()
            if self._channel is None or state != self._state:
                opened = announced(self._line.open(self.timeout))
                if self._channel is not None:
                    self._before.append(self._channel)
                self._channel, self._state = opened, state
            return self._channel

    @contextmanager
    def translating(self, phase: str) -> Iterator[None]:
        """Raise what the daemon found, or what kept it from answering, as an error of sealcar."""
        try:
            yield
        except grpc.RpcError as error:
            raise self._error(error).at(phase=phase) from None

    @contextmanager
    def patience(self, call: Cancellable) -> Iterator[Patience]:
        """Cancel the call when its next message takes longer than the timeout."""
        with Patience(call, self.timeout) as patience:
            try:
                yield patience
            except grpc.RpcError:
                if not patience.expired:
                    raise
                raise errors.TimedOutError(
                    f"the daemon sent nothing for {self.timeout:g} s"
                ) from None

    def again(self) -> Channel:
        """Return another channel to the same daemon, which looks for it at once."""
        return Channel(self._line, timeout=self.timeout)

    def close(self) -> None:
        """Close the channel; calls under way end."""
        with self._lock:
            opened = [*self._before, *filter(None, [self._channel])]
            self._before, self._channel = [], None
            if os.getpid() == self._process:
                for channel in opened:
                    channel.close()

    def _error(self, error: grpc.RpcError) -> errors.SealcarError:
        found = _detail_of(error)
        if found is not None:
            return details.from_detail(found)
        code = error.code() if isinstance(error, grpc.Call) else grpc.StatusCode.UNKNOWN
        text = (error.details() if isinstance(error, grpc.Call) else "") or code.name
        if code is grpc.StatusCode.UNAVAILABLE:
            return self._line.unreachable(text)
        if code is grpc.StatusCode.DEADLINE_EXCEEDED:
            return errors.TimedOutError(f"the daemon didn't answer within {self.timeout:g} s")
        if code is grpc.StatusCode.UNIMPLEMENTED:
            return errors.IncompatibleError(
                f"the daemon doesn't know this call: update it, or switch the call on ({text})"
            )
        return _WITHOUT_DETAIL.get(code, errors.InternalError)(text)


class Patience:
    """A watch on a stream: it cancels the call unless `beat` is called often enough."""

    def __init__(self, call: Cancellable, limit: float) -> None:
        self.expired = False
        self._call = call
        self._limit = limit
        self._beat = threading.Event()
        self._resting = self._ended = False
        self._thread = threading.Thread(target=self._watch, daemon=True, name="sealcar-patience")

    def beat(self) -> None:
        """Say that a message came, or that the next one is waited for."""
        self._beat.set()
        self._resting = False

    def rest(self) -> None:
        """Say that nothing is waited for until the next beat."""
        self._resting = True

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ended = True
        self._beat.set()
        self._thread.join()

    def _watch(self) -> None:
        # in this order: a beat that ends a rest comes first
        while self._beat.wait(self._limit) or self._resting or self._beat.is_set():
            if self._ended:
                return
            self._beat.clear()
        self.expired = True
        self._call.cancel()


def _detail_of(error: grpc.RpcError) -> common_pb2.ErrorDetail | None:
    """Return the typed detail that came with a failure; None if it has none."""
    if not isinstance(error, grpc.Call):
        return None
    try:
        status = rpc_status.from_call(error)
    except ValueError:  # the trailer contradicts the status: not written by a daemon of ours
        return None
    for packed in status.details if status else ():
        detail = common_pb2.ErrorDetail()
        if packed.Unpack(detail):
            return detail
    return None
