"""The servicer of `sealcar.v1.Keys`, on the admin socket."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sealcar.v1 import keys_pb2 as pb
from sealcar.v1 import keys_pb2_grpc

if TYPE_CHECKING:
    import grpc

    from sealcar_server.service.keys import Keys


class KeysServicer(keys_pb2_grpc.KeysServicer):
    """Says what the daemon knows of its key-encryption keys."""

    def __init__(self, keys: Keys) -> None:
        self._keys = keys

    def Status(  # noqa: N802  (the method's name on the wire)
        self,
        request: pb.KeysStatusRequest,  # noqa: ARG002  (has no field)
        context: grpc.ServicerContext,  # noqa: ARG002  (gRPC's signature)
    ) -> pb.KeysStatusResponse:
        """Ask every provider for its health."""
        return pb.KeysStatusResponse(
            keks=[
                pb.KekStatus(
                    alias=one.alias,
                    provider=one.provider,
                    version=one.version,
                    available=one.available,
                    problem=one.problem,
                    cached=one.cached,
                )
                for one in self._keys.status()
            ]
        )
