"""Both gRPC servers: the inner one behind the relay, and the operators' own on the admin socket."""

from __future__ import annotations

from concurrent import futures
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


class GrpcServer:
    """A gRPC server on one Unix socket, with health.

    Args:
        path: of the socket; what lies there is replaced.
        guard: stands before every method.
        threads: calls served at once.
        services: full names, for health.
    """

    def __init__(self, path: Path, guard: Guard, threads: int, services: tuple[str, ...]) -> None:
        self._path = path
        self._services = services
        self._pool = futures.ThreadPoolExecutor(threads, thread_name_prefix="grpc")
        self._watchers = futures.ThreadPoolExecutor(1, thread_name_prefix="health")
        self.grpc: Final = grpc.server(
            self._pool,
            interceptors=[guard],
            options=_OPTIONS,
            maximum_concurrent_rpcs=threads * (1 + _QUEUED_PER_THREAD),
        )
        # watching health holds no thread
        self._health = health.HealthServicer(
            experimental_non_blocking=True, experimental_thread_pool=self._watchers
        )
        health_pb2_grpc.add_HealthServicer_to_server(self._health, self.grpc)

    def start(self) -> None:
        """Listen, with a socket for the daemon's user only, and report SERVING.

        Raises:
            StorageError: the socket can't be made.
        """
        try:
            self.grpc.add_insecure_port(f"unix:{quote(str(self._path))}")
            self._path.chmod(0o600)
        except (RuntimeError, OSError) as error:
            raise StorageError(f"can't listen on {self._path}") from error
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


def public_server(
    path: Path,
    guard: Guard,
    threads: int,
    packages: package_store_pb2_grpc.PackageStoreServicer,
    payloads: payloads_pb2_grpc.PayloadsServicer,
) -> GrpcServer:
    """Return the inner server, which only the relay connects to."""
    server = GrpcServer(path, guard, threads, PUBLIC)
    package_store_pb2_grpc.add_PackageStoreServicer_to_server(packages, server.grpc)
    payloads_pb2_grpc.add_PayloadsServicer_to_server(payloads, server.grpc)
    return server


def admin_server(
    path: Path,
    guard: Guard,
    keys: keys_pb2_grpc.KeysServicer,
    admin: admin_pb2_grpc.AdminServicer,
) -> GrpcServer:
    """Return the operators' server, with reflection."""
    server = GrpcServer(path, guard, _ADMIN_THREADS, ADMIN)
    keys_pb2_grpc.add_KeysServicer_to_server(keys, server.grpc)
    admin_pb2_grpc.add_AdminServicer_to_server(admin, server.grpc)
    names = (*ADMIN, health.SERVICE_NAME, reflection.SERVICE_NAME)
    reflection.enable_server_reflection(names, server.grpc)
    return server
