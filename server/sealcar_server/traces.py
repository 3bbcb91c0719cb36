"""Traces by OpenTelemetry's SDK: spans of those requests whose callers have theirs recorded."""

from __future__ import annotations

import logging
import threading
import time
from typing import TYPE_CHECKING, Final

from opentelemetry.context import Context
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import SpanProcessor, TracerProvider
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
    from opentelemetry.sdk.trace import ReadableSpan

_NAME: Final = "sealcard"
_QUEUE: Final = 4096  # spans that wait; what is more is lost
_BATCH: Final = 512
_EVERY: Final = 1000  # milliseconds
_MOST_STATE: Final = 512  # characters of tracestate, which each span of a request keeps


class Traces(Closing):
    """Makes spans, and sends them from a thread of its own; no request waits for a collector.

    Args:
        endpoint: of the collector.
        release: the daemon's.
        counted: as `Exporter`.
    """

    def __init__(self, endpoint: str, release: str, counted: Callable[[str, int], None]) -> None:
        # its warnings tell what a client sent, and of each span that it is lost: a flood could
        # fill the log by them
        logging.getLogger("opentelemetry").setLevel(logging.ERROR)
        resource = Resource({"service.name": _NAME, "service.version": release})
        # whether a trace is recorded is its first span's choice, which clients make
        self._provider = TracerProvider(ParentBased(ALWAYS_OFF), resource, shutdown_on_exit=False)
        self._provider.add_span_processor(_Waiting(endpoint, counted))
        self._tracer = self._provider.get_tracer("sealcar_server", release)
        self._propagator = TraceContextTextMapPropagator()

    def begin(self, name: str, traceparent: str, tracestate: str) -> spans.Span:
        """Begin the span of a request, if the trace that its caller names is recorded."""
        if not traceparent:
            return spans.NOBODYS
        state = tracestate if len(tracestate) <= _MOST_STATE else ""
        said = {"traceparent": traceparent, "tracestate": state}
        where = self._propagator.extract(said, Context())
        span = self._tracer.start_span(f"{_NAME}.{name}", where, SpanKind.SERVER)
        return _Recorded(self._tracer, span) if span.is_recording() else spans.NOBODYS

    def close(self) -> None:
        """Send what waits, and stop."""
        self._provider.shutdown()


class _Waiting(SpanProcessor):
    """Spans that ended, until they are sent; too many are lost, and counted as that."""

    def __init__(self, endpoint: str, counted: Callable[[str, int], None]) -> None:
        self._counted = counted
        self._room = threading.Semaphore(_QUEUE)
        self._exporter = Exporter(endpoint, self._gone)
        self._batches = BatchSpanProcessor(self._exporter, _QUEUE, _EVERY, _BATCH)

    def on_end(self, span: ReadableSpan) -> None:
        """Take one."""
        if self._room.acquire(blocking=False):
            self._batches.on_end(span)
        else:
            self._counted("lost", 1)

    def shutdown(self) -> None:
        """Send what waits, and stop."""
        self._exporter.finish()
        self._batches.shutdown()  # type: ignore[no-untyped-call]  # has no types

    def _gone(self, result: str, count: int) -> None:
        self._counted(result, count)
        self._room.release(count)


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
