"""Traces by OpenTelemetry's SDK: spans of those requests whose callers have theirs recorded."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Final

from opentelemetry.context import Context
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor
from opentelemetry.sdk.trace.sampling import ALWAYS_OFF, ParentBased
from opentelemetry.trace import SpanKind, StatusCode, set_span_in_context
from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

from sealcar.closing import Closing
from sealcar_server import spans
from sealcar_server.otlp import Exporter

if TYPE_CHECKING:
    from collections.abc import Callable

    from opentelemetry import trace

_NAME: Final = "sealcard"
_QUEUE: Final = 4096  # spans that wait; what is more is lost
_BATCH: Final = 512
_EVERY: Final = 1000  # milliseconds


class Traces(Closing):
    """Makes spans, and sends them from a thread of its own; no request waits for a collector.

    Args:
        endpoint: of the collector.
        release: the daemon's.
        counted: as `Exporter`.
    """

    def __init__(self, endpoint: str, release: str, counted: Callable[[str, int], None]) -> None:
        resource = Resource({"service.name": _NAME, "service.version": release})
        # whether a trace is recorded is its first span's choice, which clients make
        self._provider = TracerProvider(ParentBased(ALWAYS_OFF), resource, shutdown_on_exit=False)
        self._processor = BatchSpanProcessor(Exporter(endpoint, counted), _QUEUE, _EVERY, _BATCH)
        self._provider.add_span_processor(self._processor)
        self._tracer = self._provider.get_tracer("sealcar_server", release)
        self._propagator = TraceContextTextMapPropagator()

    def begin(self, name: str, traceparent: str, tracestate: str) -> spans.Span:
        """Begin the span of a request, if the trace that its caller names is recorded."""
        if not traceparent:
            return spans.NOBODYS
        said = {"traceparent": traceparent, "tracestate": tracestate}
        where = self._propagator.extract(said, Context())
        span = self._tracer.start_span(f"{_NAME}.{name}", where, SpanKind.SERVER)
        return _Recorded(self._tracer, span) if span.is_recording() else spans.NOBODYS

    def close(self) -> None:
        """Send what waits, and stop."""
        self._provider.shutdown()


class _Recorded(spans.Span):
    def __init__(self, tracer: trace.Tracer, span: trace.Span) -> None:
        self._tracer, self._span = tracer, span
        self.trace_id = f"{span.get_span_context().trace_id:032x}"
        self._ended = False

    def child(self, name: str, *, begun: float | None = None) -> spans.Span:
        """Begin a part of it."""
        inside = set_span_in_context(self._span, Context())
        span = self._tracer.start_span(f"{_NAME}.{name}", inside, start_time=_clock(begun))
        return _Recorded(self._tracer, span)

    def tell(self, **attributes: str | float) -> None:
        """Add what is known."""
        for name, value in attributes.items():
            self._span.set_attribute(f"sealcar.{name}", value)

    def end(self, error: BaseException | None = None, *, at: float | None = None) -> None:
        """End it, the first time; of an error its class is told, which holds no name."""
        if self._ended:
            return
        self._ended = True
        if error is not None:
            self._span.set_attribute("error.type", type(error).__name__)
            self._span.set_status(StatusCode.ERROR)
        self._span.end(_clock(at))


def _clock(moment: float | None) -> int | None:
    """Return a time of the monotonic clock as nanoseconds since 1970; None: now."""
    if moment is None:
        return None
    return time.time_ns() - round((time.monotonic() - moment) * 1e9)
