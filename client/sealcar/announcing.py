"""What every gRPC call says beside its request: which protocol we speak, which trace it is of."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import grpc

from sealcar import protocol, tracing

if TYPE_CHECKING:
    from collections.abc import Callable

KEY: Final = "x-sealcar-protocol"


@dataclass(frozen=True)
class _Details(grpc.ClientCallDetails):
    """A call as gRPC wants it described."""

    method: str
    timeout: float | None
    metadata: tuple[tuple[str, str | bytes], ...] | None
    credentials: grpc.CallCredentials | None
    wait_for_ready: bool | None
    compression: grpc.Compression | None


class _Announcing(
    grpc.UnaryUnaryClientInterceptor,
    grpc.UnaryStreamClientInterceptor,
    grpc.StreamUnaryClientInterceptor,
    grpc.StreamStreamClientInterceptor,
):
    """Says it in the metadata of calls of all four kinds."""

    def _call(
        self,
        continuation: Callable[[grpc.ClientCallDetails, Any], Any],
        details: grpc.ClientCallDetails,
        request: Any,  # noqa: ANN401  (any message, or an iterator of them)
    ) -> Any:  # noqa: ANN401  (whatever the call gives)
        # "OLDEST-NEWEST": so the daemon can tell which of the two is behind
        said = {KEY: f"{protocol.OLDEST}-{protocol.PROTOCOL}", **tracing.where()._asdict()}
        described = _Details(
            details.method,
            details.timeout,
            (*(details.metadata or ()), *((key, value) for key, value in said.items() if value)),
            details.credentials,
            details.wait_for_ready,
            details.compression,
        )
        return continuation(described, request)

    intercept_unary_unary = _call  # type: ignore[assignment]  # one way for all four
    intercept_unary_stream = _call  # type: ignore[assignment]  # one way for all four
    intercept_stream_unary = _call  # type: ignore[assignment]  # one way for all four
    intercept_stream_stream = _call  # type: ignore[assignment]  # one way for all four


def announced(channel: grpc.Channel) -> grpc.Channel:
    """Return the channel with each of its calls saying these."""
    return grpc.intercept_channel(channel, _Announcing())
