"""The metrics listener: /metrics, and two probes that say yes or no and nothing else.

It asks nobody who he is. So whoever comes is answered, and it is the oldest of too many who goes.
"""

from __future__ import annotations

import contextlib
import socket
import socketserver
import sys
import threading
from typing import TYPE_CHECKING, Any, Final
from wsgiref.simple_server import WSGIRequestHandler, WSGIServer, make_server

import structlog
from prometheus_client import make_wsgi_app

from sealcar.errors import ConfigurationError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from prometheus_client import CollectorRegistry

    from sealcar_server.health import Health
    from sealcar_server.settings_kinds import Address

_Start = Any  # wsgiref's start_response
AT_ONCE: Final = 64  # connections: each has a thread
_PATIENCE: Final = 10.0  # seconds until more of a request has to come
_TEXT: Final = (("Content-Type", "text/plain; charset=utf-8"),)
_log: Final = structlog.get_logger("sealcar.metrics")


class _Server(socketserver.ThreadingMixIn, WSGIServer):
    daemon_threads = True
    request_queue_size = 128

    def __init__(self, *arguments: Any) -> None:  # noqa: ANN401  (the base's)
        self._changing = threading.Lock()
        self._open: dict[object, None] = {}
        super().__init__(*arguments)

    def process_request(self, request: Any, client_address: Any) -> None:  # noqa: ANN401  (the base's)
        """Give a connection a thread, and have the oldest one's end if there are too many."""
        with self._changing:
            self._open[request] = None
            if len(self._open) > AT_ONCE:
                oldest: Any = next(iter(self._open))
                del self._open[oldest]
                with contextlib.suppress(OSError):
                    oldest.shutdown(socket.SHUT_RDWR)
        super().process_request(request, client_address)

    def shutdown_request(self, request: Any) -> None:  # noqa: ANN401  (the base's)
        """Forget a connection, and close it."""
        with self._changing:
            self._open.pop(request, None)
        super().shutdown_request(request)

    def handle_error(self, request: object, client_address: object) -> None:  # noqa: ARG002  (the base's)
        """Say what went wrong, unless it is that somebody hung up or said nothing."""
        if not isinstance(sys.exc_info()[1], OSError):
            _log.exception("a request for metrics failed")

    def server_bind(self) -> None:
        """Bind, and ask no name server what this host is called."""
        socketserver.TCPServer.server_bind(self)
        self.server_name, self.server_port = str(self.server_address[0]), self.server_address[1]
        self.setup_environ()


class _Server6(_Server):
    address_family = socket.AF_INET6


class _Handler(WSGIRequestHandler):
    timeout = _PATIENCE

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002  (the base's name)
        """Keep quiet: scrapes come every few seconds."""


@contextlib.contextmanager
def serve(registry: CollectorRegistry, health: Health, address: Address) -> Iterator[int]:
    """Serve over HTTP, and give the port that was taken.

    Raises:
        ConfigurationError: the address can't be listened on.
    """
    kind = _Server6 if ":" in address.host else _Server
    try:
        server = make_server(
            address.host, address.port, _application(registry, health), kind, _Handler
        )
    except OSError as error:
        raise ConfigurationError(
            f"[metrics] address: can't listen on {address}: {error.strerror}"
        ) from error
    thread = threading.Thread(target=server.serve_forever, name="metrics", daemon=True)
    thread.start()
    try:
        yield server.server_port
    finally:
        # by itself it looks every half second whether it should end
        ending = threading.Thread(target=server.shutdown)
        ending.start()
        server.socket.shutdown(socket.SHUT_RDWR)
        ending.join()
        server.server_close()
        thread.join()


def _application(
    registry: CollectorRegistry, health: Health
) -> Callable[[dict[str, Any], _Start], Iterable[bytes]]:
    scrape: Any = make_wsgi_app(registry)
    probes: dict[str, Callable[[], bool]] = {
        "/livez": lambda: health.live,
        "/readyz": lambda: health.ready,
    }

    def answer(environ: dict[str, Any], start: _Start) -> Iterable[bytes]:
        path = environ.get("PATH_INFO", "")
        if path == "/metrics":
            found: Iterable[bytes] = scrape(environ, start)
            return found
        if path not in probes:
            start("404 Not Found", [*_TEXT])
            return [b"not found\n"]
        if probes[path]():
            start("200 OK", [*_TEXT])
            return [b"ok\n"]
        start("503 Service Unavailable", [*_TEXT])
        return [b"no\n"]

    return answer
