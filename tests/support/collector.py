"""A collector of traces: takes OTLP over HTTP in JSON, and keeps the spans."""

from __future__ import annotations

import json
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import TYPE_CHECKING, Any, Self

if TYPE_CHECKING:
    from collections.abc import Mapping

    Span = Mapping[str, Any]


class Collector:
    """Use as a context manager.

    Attributes:
        spans: that came, as they came.
        bodies: all requests.
        status: that requests are answered with.
    """

    def __init__(self) -> None:
        self.spans: list[Span] = []
        self.bodies: list[Mapping[str, Any]] = []
        self.status = 200
        collector = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_POST(self) -> None:
                assert self.headers["Content-Type"] == "application/json"
                assert self.path == "/v1/traces"
                collector.take(self.rfile.read(int(self.headers["Content-Length"])))
                self.send_response(collector.status)
                self.send_header("Content-Length", "2")
                self.end_headers()
                self.wfile.write(b"{}")

            def log_message(self, *_: object) -> None:
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.05,))

    @property
    def endpoint(self) -> str:
        return f"http://127.0.0.1:{self._server.server_address[1]}/v1/traces"

    def take(self, body: bytes) -> None:
        value = json.loads(body)
        self.bodies.append(value)
        if self.status == 200:
            for resource in value["resourceSpans"]:
                for scope in resource["scopeSpans"]:
                    self.spans += scope["spans"]

    def wait_for(self, name: str, trace: str, count: int = 1) -> list[Span]:
        """Return the spans of a trace once so many of that name have come."""
        deadline = time.monotonic() + 20
        while True:
            found = [span for span in list(self.spans) if span["traceId"] == trace]
            if sum(span["name"] == name for span in found) >= count:
                return found
            assert time.monotonic() < deadline, [span["name"] for span in found]
            time.sleep(0.05)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()


def attributes(span: Span) -> dict[str, Any]:
    """Return a span's attributes as Python values."""
    read = {"stringValue": str, "intValue": int, "doubleValue": float, "boolValue": bool}
    found = {}
    for one in span["attributes"]:
        ((kind, value),) = one["value"].items()
        found[one["key"]] = read[kind](value)
    return found
