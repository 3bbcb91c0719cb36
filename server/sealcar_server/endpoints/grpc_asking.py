"""The daemon as a caller of its own gRPC server: does a call get through, and a thread?"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final
from urllib.parse import quote

import grpc
from grpc_health.v1 import (  # type: ignore[import-untyped]  # publishes no types
    health_pb2,
    health_pb2_grpc,
)

from sealcar.closing import Closing

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from sealcar_server.endpoints.grpc_guard import Observer

_OPTIONS: Final = (
    ("grpc.enable_http_proxy", 0),
    ("grpc.use_local_subchannel_pool", 1),
)


class Asking(Closing):
    """Asks a server for its health; whoever asks that needs no name and no right.

    Args:
        path: of its socket.
        observer: told of each call's end, as this is, which takes it for an answer: others may
            have their turns before a question.
    """

    def __init__(self, path: Path, observer: Observer) -> None:
        self._observer = observer
        self._question: grpc.Future[Any] | None = None
        self._answered: Callable[[], None] = lambda: None
        self._channel = grpc.insecure_channel(f"unix:{quote(str(path))}", options=_OPTIONS)
        self._check = health_pb2_grpc.HealthStub(self._channel).Check

    def ask(self, answered: Callable[[], None]) -> None:
        """Have this called when there is an answer: even "too many calls" is one."""
        self._answered = answered
        if self._question is None or self._question.done():
            request = health_pb2.HealthCheckRequest()
            self._question = self._check.future(request, wait_for_ready=True)
            self._question.add_done_callback(lambda _question: self._answered())

    def called(self, method: str, code: str, seconds: float) -> None:
        """Take note of a call that ended."""
        self._answered()
        self._observer.called(method, code, seconds)

    def close(self) -> None:
        """Ask no more."""
        self._channel.close()
