"""An application that traces with OpenTelemetry's SDK: loads a sealed model, and prints its spans.

python -m support.traced_program SOCKET PACKAGE
"""

from __future__ import annotations

import ctypes
import sys
import threading
from contextlib import suppress

import sealcar
from sealcar import ort
from sealcar.errors import NotFoundError
from sealcar.ort.scopes import BlobReader


def main(socket: str, package: str) -> None:
    """Load it, and with shared weights; read as a provider does; ask for what isn't there."""
    assert "opentelemetry" not in sys.modules, "sealcar imported it"
    from opentelemetry import trace  # noqa: PLC0415  (after what must not import it)
    from opentelemetry.sdk.trace import TracerProvider  # noqa: PLC0415
    from opentelemetry.sdk.trace.export import SimpleSpanProcessor  # noqa: PLC0415
    from opentelemetry.sdk.trace.export.in_memory_span_exporter import (  # noqa: PLC0415
        InMemorySpanExporter,
    )

    exporter = InMemorySpanExporter()
    provider = TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    trace.set_tracer_provider(provider)
    with sealcar.connect(socket) as client:
        ort.load(client, package, providers=["CPUExecutionProvider"])
        ort.load(client, package, providers=["CPUExecutionProvider"], initializers="shared")
        with trace.get_tracer("app").start_as_current_span("foreign thread"):
            read_elsewhere(client, package)
        with trace.get_tracer("app").start_as_current_span("absent"), suppress(NotFoundError):
            client.scope("absent", "c", "v").open()
    for span in exporter.get_finished_spans():
        sys.stdout.write(span.to_json(indent=None) + "\n")


def read_elsewhere(client: sealcar.Client, package: str) -> None:
    """Read as a provider does that asks from a thread of its own."""
    scope = client.scope(package)
    (model,) = [one.name for one in scope.payloads if one.kind == "model"]
    reader = BlobReader(scope, {"blob": model})
    room = (ctypes.c_char * scope.payload(model).size)()
    address = ctypes.addressof(room)
    thread = threading.Thread(target=reader, args=("blob", lambda _size: address))
    thread.start()
    thread.join()
    assert reader.served


if __name__ == "__main__":
    main(*sys.argv[1:])
