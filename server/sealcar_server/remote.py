"""The daemon's door on TCP: a gRPC server over mutual TLS, if the settings have one."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import structlog

from sealcar_server import remote_access
from sealcar_server.endpoints.grpc_guard import Guard
from sealcar_server.endpoints.grpc_packages import PackagesServicer
from sealcar_server.endpoints.grpc_payloads import PayloadsServicer
from sealcar_server.endpoints.grpc_server import Servicers, public_server
from sealcar_server.endpoints.grpc_streams import Streams
from sealcar_server.endpoints.grpc_tls import OPTIONS, Callers, Certificates, on_tcp

if TYPE_CHECKING:
    from sealcar_server.access.rates import Rates
    from sealcar_server.metrics import Metrics
    from sealcar_server.remote_access import RemoteAccess
    from sealcar_server.service.assembly import Service
    from sealcar_server.settings import Settings

_log: Final = structlog.get_logger("sealcar.tls")


class Remote:
    """Serves callers over TLS, with threads and streams that no other caller waits for.

    Args:
        access: of the settings.
        settings: of the daemon.
        service: does what is asked.
        rates: of all callers.
        meter: takes the figures.

    Attributes:
        server: to be started.
        streams: that run here.
        certificates: in use.
    """

    def __init__(
        self,
        access: RemoteAccess,
        settings: Settings,
        service: Service,
        rates: Rates,
        meter: Metrics,
    ) -> None:
        threads = settings.daemon.grpc_threads
        self.streams: Final = Streams(max(1, threads - 2), settings.transfer.idle_timeout)
        self.certificates: Final = Certificates(
            access.files, lambda: remote_access.certificates_of(access), meter.certificate
        )
        callers = Callers(access.trust_domain, meter.denied)
        guard = Guard(lambda context: rates.take(callers(context).account), self.streams, meter)
        self.server: Final = public_server(
            on_tcp(access.address, self.certificates.credentials(), self._listening),
            guard,
            threads,
            Servicers(
                PackagesServicer(service, callers, callers, meter),
                PayloadsServicer(service.payloads, callers, meter),
            ),
            options=OPTIONS,
        )
        self._host, self._trust_domain = access.address.host, access.trust_domain

    def _listening(self, port: int) -> None:
        _log.info("mutual TLS served", host=self._host, port=port, trust_domain=self._trust_domain)
