"""The gRPC servers: behind the relay, on TCP, and the operators' own on the admin socket."""

from __future__ import annotations

from collections.abc import Callable
from concurrent import futures
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final
from urllib.parse import quote

import grpc
from grpc_health.v1 import (  # type: ignore[import-untyped]  # publishes no types
    health,
    health_pb2,
    health_pb2_grpc,
)
from grpc_reflection.v1alpha import (  # type: ignore[import-untyped]  # publishes no types
    reflection,
)

from sealcar.errors import StorageError
from sealcar.v1 import (
    admin_pb2,
    admin_pb2_grpc,
    keys_pb2,
    keys_pb2_grpc,
    package_store_pb2,
    package_store_pb2_grpc,
    payloads_pb2,
    payloads_pb2_grpc,
)

if TYPE_CHECKING:
    from pathlib import Path

    from sealcar_server.endpoints.grpc_guard import Guard

_ADMIN_THREADS: Final = 4
# calls that may wait for a thread before gRPC refuses them; each may hold a message of 4 MiB
_QUEUED_PER_THREAD: Final = 6
_OPTIONS: Final = (
    ("grpc.max_receive_message_length", 4 << 20),
    ("grpc.max_metadata_size", 16 << 10),
    ("grpc.so_reuseport", 0),
)
PUBLIC: Final = (
    package_store_pb2.DESCRIPTOR.services_by_name["PackageStore"].full_name,
    payloads_pb2.DESCRIPTOR.services_by_name["Payloads"].full_name,
)
ADMIN: Final = (
    keys_pb2.DESCRIPTOR.services_by_name["Keys"].full_name,
    admin_pb2.DESCRIPTOR.services_by_name["Admin"].full_name,
)


Listen = Callable[[grpc.Server], None]
Options = tuple[tuple[str, int], ...]


def on_socket(path: Path) -> Listen:
    """Have a server listen on a Unix socket, for the daemon's user only; it replaces what is there.

    What is returned raises StorageError if the socket can't be made.
    """

    def listen(server: grpc.Server) -> None:
        try:
            server.add_insecure_port(f"unix:{quote(str(path))}")
            path.chmod(0o600)
        except (RuntimeError, OSError) as error:
            raise StorageError(f"can't listen on {path}") from error

    return listen


class GrpcServer:
    """A gRPC server in one place, with health.

    Args:
        listen: has it listen there.
        guard: stands before every method.
        threads: calls served at once.
        services: full names, for health.
        options: of gRPC, beside those of every server.
    """

    def __init__(
        self,
        listen: Listen,
        guard: Guard,
        threads: int,
        services: tuple[str, ...],
        *,
        options: Options = (),
    ) -> None:
        self._listen = listen
        self._services = services
        self._pool = futures.ThreadPoolExecutor(threads, thread_name_prefix="grpc")
        self._watchers = futures.ThreadPoolExecutor(1, thread_name_prefix="health")
        self.grpc: Final = grpc.server(
            self._pool,
            interceptors=[guard],
            options=(*_OPTIONS, *options),
            maximum_concurrent_rpcs=threads * (1 + _QUEUED_PER_THREAD),
        )
        # watching health holds no thread
        self._health = health.HealthServicer(
            experimental_non_blocking=True, experimental_thread_pool=self._watchers
        )
        health_pb2_grpc.add_HealthServicer_to_server(self._health, self.grpc)

    def start(self) -> None:
        """Listen, and report SERVING.

        Raises:
            SealcarError: it can't listen there.
        """
        self._listen(self.grpc)
        self.grpc.start()
        self._health.set("", health_pb2.HealthCheckResponse.SERVING)
        self.serve(serving=True)

    def serve(self, *, serving: bool) -> None:
        """Report whether the services can be used; the server as a whole lives in any case."""
        answer = health_pb2.HealthCheckResponse
        for service in self._services:
            self._health.set(service, answer.SERVING if serving else answer.NOT_SERVING)

    def drain(self) -> None:
        """Report NOT_SERVING from now on; calls are still answered."""
        self._health.enter_graceful_shutdown()

    def stop(self, grace: float) -> None:
        """Take no more calls, give those under way so many seconds, and end."""
        self.grpc.stop(grace).wait()
        self._pool.shutdown()
        self._watchers.shutdown()


@dataclass(frozen=True)
class Servicers:
    """What clients call."""

    packages: package_store_pb2_grpc.PackageStoreServicer
    payloads: payloads_pb2_grpc.PayloadsServicer


def public_server(
    listen: Listen, guard: Guard, threads: int, servicers: Servicers, *, options: Options = ()
) -> GrpcServer:
    """Return a server for clients: behind the relay, or on TCP."""
    server = GrpcServer(listen, guard, threads, PUBLIC, options=options)
    package_store_pb2_grpc.add_PackageStoreServicer_to_server(servicers.packages, server.grpc)
    payloads_pb2_grpc.add_PayloadsServicer_to_server(servicers.payloads, server.grpc)
    return server


def admin_server(
    path: Path,
    guard: Guard,
    keys: keys_pb2_grpc.KeysServicer,
    admin: admin_pb2_grpc.AdminServicer,
) -> GrpcServer:
    """Return the operators' server, with reflection."""
    server = GrpcServer(on_socket(path), guard, _ADMIN_THREADS, ADMIN)
    keys_pb2_grpc.add_KeysServicer_to_server(keys, server.grpc)
    admin_pb2_grpc.add_AdminServicer_to_server(admin, server.grpc)
    names = (*ADMIN, health.SERVICE_NAME, reflection.SERVICE_NAME)
    reflection.enable_server_reflection(names, server.grpc)
    return server
