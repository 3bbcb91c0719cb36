"""The daemon as a caller of its own gRPC server: does a call get through, and a thread?"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final
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

_OPTIONS: Final = (
    ("grpc.enable_http_proxy", 0),
    ("grpc.use_local_subchannel_pool", 1),
)


class Asking(Closing):
    """Asks a server for its health; whoever asks that needs no name and no right.

    Args:
        path: of its socket.
    """

    def __init__(self, path: Path) -> None:
        self._channel = grpc.insecure_channel(f"unix:{quote(str(path))}", options=_OPTIONS)
        self._check = health_pb2_grpc.HealthStub(self._channel).Check

    def ask(self, answered: Callable[[], None]) -> None:
        """Have this called when there is an answer: even "too many calls" is one."""
        asked = self._check.future(health_pb2.HealthCheckRequest(), wait_for_ready=True)
        asked.add_done_callback(lambda _asked: answered())

    def close(self) -> None:
        """Ask no more."""
        self._channel.close()
