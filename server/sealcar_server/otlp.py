"""Spans on their way to a collector: OTLP over HTTP, in its JSON form.

The process that holds the keys gets no further package for that: OpenTelemetry's own exporters
bring an HTTP client and generated code along.
"""

from __future__ import annotations

import http.client
import json
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import urlsplit

import structlog
from opentelemetry.sdk.trace.export import SpanExporter, SpanExportResult
from opentelemetry.trace import INVALID_SPAN_CONTEXT

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from opentelemetry.sdk.trace import ReadableSpan

_PATIENCE: Final = 5.0  # seconds
_DONE: Final = range(200, 300)
_ANSWER: Final = 64 << 10  # bytes of an answer that are read at most
_log: Final = structlog.get_logger("sealcar.traces")


class Exporter(SpanExporter):
    """Sends batches: what a collector doesn't take is lost.

    Args:
        endpoint: "http://HOST:PORT/PATH", or https.
        counted: told how many spans were sent ("sent") or not ("lost").
    """

    def __init__(self, endpoint: str, counted: Callable[[str, int], None]) -> None:
        parts = urlsplit(endpoint)
        secure = parts.scheme == "https"
        self._connection = (http.client.HTTPSConnection if secure else http.client.HTTPConnection)(
            parts.hostname or "", parts.port, timeout=_PATIENCE
        )
        self._path = parts.path or "/"
        self._counted = counted
        self._well = True
        self._closed = self._at_the_end = False

    def export(self, spans: Sequence[ReadableSpan]) -> SpanExportResult:
        """Send a batch. Called by one thread."""
        reason = "it is being closed" if self._closed else self._send(spans)
        self._counted("lost" if reason else "sent", len(spans))
        if reason and self._well:
            _log.warning("traces can't be sent", reason=reason)
        elif self._well < (not reason):
            _log.info("traces are sent again")
        self._well = not reason
        # at the end nobody waits for more than one batch that can't be sent
        self._closed = self._closed or (self._at_the_end and bool(reason))
        return SpanExportResult.FAILURE if reason else SpanExportResult.SUCCESS

    def finish(self) -> None:
        """Send what waits, as far as that goes without waiting long. From any thread."""
        self._at_the_end = True

    def shutdown(self) -> None:
        """Send nothing more."""
        self._closed = True
        self._connection.close()

    def _send(self, spans: Sequence[ReadableSpan]) -> str:
        """Return why it wasn't taken; empty if it was."""
        body = body_of(spans)
        kept = self._connection.sock is not None
        try:
            try:
                return self._post(body)
            except ConnectionError:
                # collectors close connections that are idle; that shows when one is used again
                if not kept:
                    raise
                self._connection.close()
                return self._post(body)
        except (OSError, http.client.HTTPException) as error:
            self._connection.close()
            return str(error) or type(error).__name__

    def _post(self, body: bytes) -> str:
        headers = {"Content-Type": "application/json"}
        self._connection.request("POST", self._path, body, headers)
        answer = self._connection.getresponse()
        answer.read(_ANSWER)
        if answer.will_close or not answer.isclosed():
            self._connection.close()
        return "" if answer.status in _DONE else f"the collector answered {answer.status}"


def body_of(spans: Sequence[ReadableSpan]) -> bytes:
    """Return an ExportTraceServiceRequest of spans of one tracer, at least one."""
    first = spans[0]
    scope = first.instrumentation_scope
    named = {"name": scope.name, "version": scope.version} if scope else {}
    value = {
        "resourceSpans": [
            {
                "resource": {"attributes": _attributes(first.resource.attributes)},
                "scopeSpans": [{"scope": named, "spans": [_span(one) for one in spans]}],
            }
        ]
    }
    return json.dumps(value, separators=(",", ":")).encode()


def _span(span: ReadableSpan) -> dict[str, Any]:
    context = span.get_span_context() or INVALID_SPAN_CONTEXT
    found = {
        "traceId": f"{context.trace_id:032x}",
        "spanId": f"{context.span_id:016x}",
        "flags": int(context.trace_flags),
        "traceState": context.trace_state.to_header(),
        "name": span.name,
        # OTLP's begin with "unspecified"
        "kind": span.kind.value + 1,
        # 64 bits, which JSON's numbers don't hold everywhere
        "startTimeUnixNano": str(span.start_time),
        "endTimeUnixNano": str(span.end_time),
        "attributes": _attributes(span.attributes or {}),
        "status": {"code": span.status.status_code.value},
    }
    return (
        found if span.parent is None else {**found, "parentSpanId": f"{span.parent.span_id:016x}"}
    )


def _attributes(values: Mapping[str, Any]) -> list[dict[str, Any]]:
    return [{"key": key, "value": _value(value)} for key, value in values.items()]


def _value(value: object) -> dict[str, Any]:
    kinds: Iterable[tuple[type, str, Callable[[Any], object]]] = (
        (bool, "boolValue", bool),
        (int, "intValue", str),
        (float, "doubleValue", float),
    )
    for kind, name, written in kinds:
        if isinstance(value, kind):
            return {name: written(value)}
    return {"stringValue": str(value)}
