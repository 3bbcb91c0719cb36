"""The daemon's gRPC servers: for operators, behind the relay, and on TCP if it is set."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import structlog

from sealcar_server import remote_access, spans
from sealcar_server.endpoints import listening
from sealcar_server.endpoints.grpc_admin import AdminServicer, Watched
from sealcar_server.endpoints.grpc_asking import Asking
from sealcar_server.endpoints.grpc_guard import Guard
from sealcar_server.endpoints.grpc_keys import KeysServicer
from sealcar_server.endpoints.grpc_packages import PackagesServicer
from sealcar_server.endpoints.grpc_payloads import PayloadsServicer
from sealcar_server.endpoints.grpc_server import Servicers, admin_server, on_socket, public_server
from sealcar_server.endpoints.grpc_streams import Streams
from sealcar_server.endpoints.grpc_tls import OPTIONS, Callers, Certificates, on_tcp
from sealcar_server.endpoints.relay import INNER, Relay
from sealcar_server.health import Pulse

if TYPE_CHECKING:
    import contextlib
    import socket
    from collections.abc import Callable, Mapping, Sequence
    from pathlib import Path

    from grpc import ServicerContext

    from sealcar_server.access.audit.trail import Trail
    from sealcar_server.access.live_policy import LivePolicy
    from sealcar_server.access.principal import Principal
    from sealcar_server.access.rates import Rates
    from sealcar_server.access.sessions import Sessions
    from sealcar_server.endpoints.grpc_guard import Observer
    from sealcar_server.endpoints.grpc_server import GrpcServer, Listen, Options
    from sealcar_server.hardening.confinement import Step
    from sealcar_server.metrics import Metrics
    from sealcar_server.remote_access import RemoteAccess
    from sealcar_server.service.assembly import Service
    from sealcar_server.settings import Settings

_GRACE: Final = 1.0  # seconds for short calls, at the end
_GIVEN_UP: Final = 600.0  # seconds that clients wait for a commit, the longest of all short calls
_OPERATORS: Final = "operators"  # on whose account calls on the admin socket are
_log: Final = structlog.get_logger("sealcar.tls")


@dataclass(frozen=True)
class Parts:
    """What the servers stand on."""

    settings: Settings
    service: Service
    sessions: Sessions
    rates: Rates
    meter: Metrics
    trail: Trail
    tracing: spans.Tracing = spans.UNTRACED


class GrpcDoors:
    """Starts the servers; what was started is stopped by the stack.

    Args:
        parts: what they stand on.
        stack: of the daemon.

    Attributes:
        servers: for clients.
        streams: that run there.
    """

    def __init__(self, parts: Parts, stack: contextlib.ExitStack) -> None:
        self._parts, self._stack = parts, stack
        self._threads = parts.settings.daemon.grpc_threads
        self._certificates: Certificates | None = None
        self.servers: Final[list[GrpcServer]] = []
        # of all that come by Unix sockets; those on TCP have their own, which nobody here waits for
        self.streams: Final = [self._streams()]

    def start_admin(self, folder: Path, policy: LivePolicy, steps: Sequence[Step]) -> None:
        """Serve operators; the socket's mode admits nobody else than the daemon's user and root.

        Raises:
            StorageError: the socket can't be made.
        """
        parts = self._parts
        path = folder / listening.ADMIN
        guard = Guard(
            lambda _context: _OPERATORS,
            self.streams[0],
            parts.meter.calls,
            parts.trail.operation,
            parts.tracing,
        )
        exporter = parts.service.key_exporter if parts.settings.admin.tink_export else None
        keys = KeysServicer(parts.service.keys, exporter)
        watched = Watched(parts.meter.samples, parts.sessions.connected, parts.service.store)
        admin = AdminServicer(policy, parts.trail, steps, watched)
        server = admin_server(path, guard, keys, admin)
        self._serve(server)
        self._stack.callback(path.unlink, missing_ok=True)

    def start_inner(
        self, folder: Path, listeners: Callable[[], Mapping[str, socket.socket]]
    ) -> None:
        """Serve the listeners, through the relay.

        Args:
            folder: of the inner server's socket.
            listeners: makes their sockets, which come last.

        Raises:
            StorageError, ConfigurationError: a socket can't be made.
        """
        parts = self._parts
        relay = self._relay = Relay(
            folder,
            parts.sessions,
            of_one=parts.settings.limits.connections // 2,
            on_refused=parts.trail.refused,
        )

        def caller(context: ServicerContext) -> Principal:
            return relay.session(context.peer()).principal

        def receiver(context: ServicerContext) -> Principal:
            session = relay.session(context.peer())
            session.received = True
            return session.principal

        # stopped after the server, whose last answers it carries
        self._stack.callback(relay.stop)
        asking = self._asking = Asking(folder / INNER, parts.meter.calls)
        door = on_socket(folder / INNER)
        self._serve_clients(door, self.streams[0], caller, receiver, observer=asking)
        relay.start(listeners())
        # before the server, which would wait for its last question
        self._stack.callback(self._asking.close)

    def start_tls(self, access: RemoteAccess) -> None:
        """Serve TCP over mutual TLS, with threads and streams that no other caller waits for.

        Raises:
            ConfigurationError: the certificates aren't good, or it can't listen there.
        """
        parts = self._parts
        streams = self._streams()
        self._certificates = certificates = Certificates(
            access.files, lambda: remote_access.certificates_of(access), parts.meter.certificate
        )
        caller = Callers(access.trust_domain, parts.trail.refused_account)

        def listening_on(port: int) -> None:
            _log.info(
                "mutual TLS served",
                host=access.address.host,
                port=port,
                trust_domain=access.trust_domain,
            )

        door = on_tcp(access.address, certificates.credentials(), listening_on)
        self._serve_clients(door, streams, caller, caller, options=OPTIONS)
        self.streams.append(streams)

    def pulses(self) -> list[Pulse]:
        """Return what shows that clients' calls get through: the relay, and gRPC with its threads.

        If none got a thread for so long and none ended, every client has given up.
        """
        return [
            Pulse("relay", self._relay.ask),
            Pulse("gRPC", self._asking.ask, _GIVEN_UP),
        ]

    def look(self) -> None:
        """Notice new certificates."""
        if self._certificates is not None:
            self._certificates.look()

    def reload(self) -> None:
        """Read the certificates again."""
        if self._certificates is not None:
            self._certificates.reload()

    def drain(self) -> None:
        """Begin no more streams; short calls are still answered."""
        for server in self.servers:
            server.drain()
        for streams in self.streams:
            streams.refuse()

    def busy(self) -> bool:
        """Tell whether streams run."""
        return any(streams.count() for streams in self.streams)

    def _serve_clients(
        self,
        listen: Listen,
        streams: Streams,
        caller: Callable[[ServicerContext], Principal],
        receiver: Callable[[ServicerContext], Principal],
        *,
        options: Options = (),
        observer: Observer | None = None,
    ) -> None:
        parts = self._parts
        guard = Guard(
            lambda context: parts.rates.take(caller(context).account),
            streams,
            observer or parts.meter.calls,
            tracing=parts.tracing,
        )
        servicers = Servicers(
            PackagesServicer(parts.service, caller, receiver, parts.meter),
            PayloadsServicer(
                parts.service.payloads, receiver, parts.meter, parts.service.prefetcher
            ),
        )
        server = public_server(listen, guard, self._threads, servicers, options=options)
        self._serve(server)
        self.servers.append(server)

    def _serve(self, server: GrpcServer) -> None:
        server.start()
        self._stack.callback(server.stop, _GRACE)

    def _streams(self) -> Streams:
        streams = Streams(
            max(1, self._threads - 2),
            self._parts.settings.transfer.idle_timeout,
            self._parts.trail.refused_account,
        )
        self._stack.callback(streams.close)
        return streams
