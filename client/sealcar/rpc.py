"""A gRPC channel to one Unix socket: the peer checked first, failures as sealcar's own errors."""

from __future__ import annotations

import os
import socket
import struct
import threading
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final, Protocol, Self
from urllib.parse import quote

import grpc
from grpc_status import rpc_status

from sealcar import details, errors
from sealcar.v1 import common_pb2

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

MAX_PATH: Final = 107
_CREDENTIALS: Final = struct.Struct("3i")
_OPTIONS: Final = (
    ("grpc.max_receive_message_length", 64 << 20),  # a package of very many payloads in one answer
    ("grpc.enable_http_proxy", 0),
    ("grpc.use_local_subchannel_pool", 1),
)
_WITHOUT_DETAIL: Final[dict[grpc.StatusCode, type[errors.SealcarError]]] = {
    grpc.StatusCode.UNAVAILABLE: errors.UnavailableError,
    grpc.StatusCode.CANCELLED: errors.UnavailableError,
    grpc.StatusCode.DEADLINE_EXCEEDED: errors.TimedOutError,
    grpc.StatusCode.RESOURCE_EXHAUSTED: errors.ExhaustedError,
    grpc.StatusCode.PERMISSION_DENIED: errors.DeniedError,
    grpc.StatusCode.UNIMPLEMENTED: errors.IncompatibleError,
    grpc.StatusCode.NOT_FOUND: errors.NotFoundError,
    grpc.StatusCode.INVALID_ARGUMENT: errors.InvalidRequestError,
}


class Cancellable(Protocol):
    """A call under way."""

    def cancel(self) -> bool:
        """End it."""


class Channel:
    """One socket of the daemon, connected when first asked.

    Args:
        path: of the socket.
        peer_uid: nothing is sent to a server of another uid.
        timeout: seconds for one answer, and between two messages of a stream.
    """

    def __init__(self, path: Path, *, peer_uid: int, timeout: float) -> None:
        self.path = path
        self.timeout = timeout
        self._peer_uid = peer_uid
        self._channel: grpc.Channel | None = None
        self._process = os.getpid()
        self._lock = threading.Lock()

    def get(self) -> grpc.Channel:
        """Return the channel, made on the first call.

        Raises:
            UnavailableError: nobody listens, or somebody of another uid.
            WrongStateError: the process was forked since; gRPC doesn't survive that.
        """
        if os.getpid() != self._process:
            raise errors.WrongStateError(
                "this process was forked from one that had this client; connect again in the child"
            )
        with self._lock:
            if self._channel is None:
                check_peer(self.path, self._peer_uid, self.timeout)
                target = "unix:" + quote(str(self.path.absolute()))
                self._channel = grpc.insecure_channel(target, options=_OPTIONS)
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
        """Return another channel to the same socket, which looks for its server at once."""
        return Channel(self.path, peer_uid=self._peer_uid, timeout=self.timeout)

    def close(self) -> None:
        """Close the channel; calls under way end."""
        with self._lock:
            if self._channel is not None and os.getpid() == self._process:
                self._channel.close()
            self._channel = None

    def _error(self, error: grpc.RpcError) -> errors.SealcarError:
        found = detail_of(error)
        if found is not None:
            return details.from_detail(found)
        code = error.code() if isinstance(error, grpc.Call) else grpc.StatusCode.UNKNOWN
        text = (error.details() if isinstance(error, grpc.Call) else "") or code.name
        if code is grpc.StatusCode.UNAVAILABLE:
            return unreachable(self.path, text)
        if code is grpc.StatusCode.DEADLINE_EXCEEDED:
            return errors.TimedOutError(f"the daemon didn't answer within {self.timeout:g} s")
        return _WITHOUT_DETAIL.get(code, errors.InternalError)(text)


class Patience:
    """A watch on a stream: it cancels the call unless `beat` is called often enough."""

    def __init__(self, call: Cancellable, limit: float) -> None:
        self.expired = False
        self._call = call
        self._limit = limit
        self._beat = threading.Event()
        self._ended = False
        self._thread = threading.Thread(target=self._watch, daemon=True, name="sealcar-patience")

    def beat(self) -> None:
        """Say that a message came."""
        self._beat.set()

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ended = True
        self._beat.set()
        self._thread.join()

    def _watch(self) -> None:
        while self._beat.wait(self._limit):
            if self._ended:
                return
            self._beat.clear()
        self.expired = True
        self._call.cancel()


def detail_of(error: grpc.RpcError) -> common_pb2.ErrorDetail | None:
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


def check_peer(path: Path, uid: int, timeout: float) -> None:
    """Connect once and ask the kernel whose socket it is.

    Raises:
        UnavailableError: nobody listens there, or somebody of another uid.
        InvalidRequestError: the path is too long for a socket.
    """
    raw = os.fsencode(path.absolute())
    if len(raw) > MAX_PATH:
        raise errors.InvalidRequestError(
            f"socket path {path} has {len(raw)} bytes; the kernel takes at most {MAX_PATH}"
        )
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as probe:
        probe.settimeout(timeout)
        try:
            probe.connect(raw)
        except OSError as error:
            raise unreachable(path, os.strerror(error.errno or 0)) from error
        found = probe.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _CREDENTIALS.size)
    _, found_uid, _ = _CREDENTIALS.unpack(found)
    if found_uid != uid:
        raise errors.UnavailableError(
            f"{path} is served by uid {found_uid}, not by uid {uid};"
            " set SEALCAR_PEER_UID if that is the daemon's"
        )


def unreachable(path: Path, reason: str) -> errors.UnavailableError:
    """Say that no daemon answers, and what to do about it."""
    return errors.UnavailableError(
        f"no daemon answers at {path} ({reason}); start one with `sealcar serve`,"
        " or name its listener directory with --socket or SEALCAR_SOCKET",
        retry_after=1.0,
    )
