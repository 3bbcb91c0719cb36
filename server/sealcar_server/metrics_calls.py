"""Figures of gRPC calls, and of the traces that requests are part of."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from prometheus_client import Counter, Histogram

if TYPE_CHECKING:
    from prometheus_client import CollectorRegistry

_SECONDS: Final = (0.0005, 0.001, 0.005, 0.01, 0.05, 0.1, 0.5, 1, 5, 10, 60, 300)


class CallMetrics:
    """Labels are names of methods and codes, of which there is a fixed number."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self._calls = Counter(
            "sealcar_grpc_requests",
            "gRPC calls that have ended, by method and status code.",
            ["method", "code"],
            registry=registry,
        )
        self._call_seconds = Histogram(
            "sealcar_grpc_request_seconds",
            "Time from a gRPC call's start to its end.",
            ["method"],
            buckets=_SECONDS,
            registry=registry,
        )
        self._spans = Counter(
            "sealcar_spans",
            "Spans of traces that a collector took (sent) or didn't (lost).",
            ["result"],
            registry=registry,
        )
        for result in ("sent", "lost"):
            self._spans.labels(result)

    def called(self, method: str, code: str, seconds: float) -> None:
        """Count a gRPC call that ended."""
        self._calls.labels(method, code).inc()
        self._call_seconds.labels(method).observe(seconds)

    def spans(self, result: str, count: int) -> None:
        """Count spans that were "sent" to a collector, or "lost"."""
        self._spans.labels(result).inc(count)
