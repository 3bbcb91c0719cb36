"""gRPC on TCP: mutual TLS and nothing else. Callers are who their certificates say.

A server of its own, so that no call here can be taken for one that came through the relay.
"""

from __future__ import annotations

import threading
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Final, cast

import grpc
import structlog

from sealcar.errors import ConfigurationError, DeniedError
from sealcar_server.access.certificates import identity
from sealcar_server.access.changes import signature
from sealcar_server.access.principal import Principal

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from pathlib import Path

    from sealcar_server.endpoints.grpc_server import Listen, Options
    from sealcar_server.endpoints.tls_files import Files, Material
    from sealcar_server.settings_kinds import Address

_CERTIFICATE: Final = "x509_pem_cert"
OPTIONS: Final[Options] = (
    # who says nothing, or says it slowly, holds one of these places for so long
    ("grpc.server_handshake_timeout_ms", 10_000),
    ("grpc.max_allowed_incoming_connections", 1024),
    # a client that is there connects again, with the certificate and authorities of then
    ("grpc.max_connection_age_ms", 600_000),
    ("grpc.keepalive_time_ms", 60_000),
)
_log: Final = structlog.get_logger("sealcar.tls")


class Certificates:
    """The daemon's certificates, replaced while it runs when their files are.

    Args:
        files: looked at by `look`; links are followed, so a swapped link is a change too.
        load: reads and checks them.
        on_state: told when the daemon's own certificate ends, and whether the files are unusable.

    Raises:
        ConfigurationError: they are wrong from the start.
    """

    def __init__(
        self,
        files: Files,
        load: Callable[[], Material],
        on_state: Callable[[datetime, bool], None] = lambda _end, _broken: None,
    ) -> None:
        self._paths: tuple[Path, ...] = (files.certificate, files.key, files.client_ca)
        self._load, self._on_state = load, on_state
        self._lock = threading.Lock()
        self._seen = self._state_of_files()
        self._material = load()
        self._fresh: grpc.ServerCertificateConfiguration | None = None
        self._ended = False
        on_state(self._material.end, False)  # noqa: FBT003  (a hook, called with what it is told)

    def credentials(self) -> grpc.ServerCredentials:
        """Return what a server serves with, and follows later changes by."""
        return grpc.dynamic_ssl_server_credentials(
            _configuration(self._material),
            self._fetch,  # type: ignore[arg-type]  # None means no change, by its documentation
            require_client_authentication=True,
        )

    def look(self) -> None:
        """Read the files again if they aren't those that were read last. Called now and then.

        They may change one after the other: what doesn't belong together changes nothing, and is
        looked at again with the next change.
        """
        if self._state_of_files() != self._seen:
            self.reload()
        if not self._ended and self._material.end <= datetime.now(UTC):
            self._ended = True
            _log.error("the daemon's certificate has expired: callers over TLS refuse it")

    def reload(self) -> None:
        """Read the files again now: what made them unusable may have been something else."""
        # taken before reading: what is written meanwhile is seen the next time
        self._seen = self._state_of_files()
        try:
            material = self._load()
        except ConfigurationError as error:
            _log.error("certificates not replaced", reason=error.message)
            self._on_state(self._material.end, True)  # noqa: FBT003  (as above)
            return
        self._material, self._ended = material, False
        with self._lock:
            self._fresh = _configuration(material)
        _log.info("certificates replaced", good_until=material.end.isoformat())
        self._on_state(material.end, False)  # noqa: FBT003  (as above)

    def _fetch(self) -> grpc.ServerCertificateConfiguration | None:
        """Give gRPC what it doesn't have yet; called before each handshake, on a thread of its."""
        with self._lock:
            fresh, self._fresh = self._fresh, None
        return fresh

    def _state_of_files(self) -> tuple[object, ...]:
        return tuple(signature(path) for path in self._paths)


def _configuration(material: Material) -> grpc.ServerCertificateConfiguration:
    return grpc.ssl_server_certificate_configuration(
        [(material.key, material.certificate)], material.authorities
    )


def on_tcp(
    address: Address, credentials: grpc.ServerCredentials, on_port: Callable[[int], None]
) -> Listen:
    """Have a server listen on TCP, and tell the port.

    What is returned raises ConfigurationError if it can't.
    """
    host = f"[{address.host}]" if ":" in address.host else address.host

    def listen(server: grpc.Server) -> None:
        try:
            on_port(server.add_secure_port(f"{host}:{address.port}", credentials))
        except RuntimeError as error:
            raise ConfigurationError(f"[tls] address: can't listen on {address}") from error

    return listen


def _only(proved: Mapping[str, Sequence[bytes]]) -> bytes:
    certificates = proved.get(_CERTIFICATE, ())
    if len(certificates) != 1:
        raise DeniedError("calls are served over mutual TLS only")
    return certificates[0]


class Callers:
    """Tells who calls over TLS.

    Args:
        trust_domain: that callers have to be of.
        on_refused: told from where it was tried, and "certificate".
    """

    def __init__(self, trust_domain: str, on_refused: Callable[[str, str], None]) -> None:
        self._trust_domain, self._on_refused = trust_domain, on_refused

    def __call__(self, context: grpc.ServicerContext) -> Principal:
        """Return who calls: what the handshake proved, whatever the call's metadata say.

        Raises:
            DeniedError: the certificate names no workload of the trust domain.
        """
        proved = cast("Mapping[str, Sequence[bytes]]", context.auth_context())
        try:
            return Principal.remote(identity(_only(proved), self._trust_domain))
        except DeniedError:
            # a new port for each connection would make every one of them somebody else
            self._on_refused(context.peer().rpartition(":")[0], "certificate")
            raise
