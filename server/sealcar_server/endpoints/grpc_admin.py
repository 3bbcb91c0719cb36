"""The servicer of `sealcar.v1.Admin`, on the admin socket."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sealcar.v1 import admin_pb2 as pb
from sealcar.v1 import admin_pb2_grpc

if TYPE_CHECKING:
    from collections.abc import Sequence

    import grpc

    from sealcar_server.access.audit.trail import Trail
    from sealcar_server.access.live_policy import LivePolicy
    from sealcar_server.hardening.confinement import Step


class AdminServicer(admin_pb2_grpc.AdminServicer):
    """Says what operators keep an eye on."""

    def __init__(self, policy: LivePolicy, trail: Trail, steps: Sequence[Step]) -> None:
        self._policy, self._trail, self._steps = policy, trail, steps

    def Status(  # noqa: N802  (the method's name on the wire)
        self,
        request: pb.AdminStatusRequest,  # noqa: ARG002  (has no field)
        context: grpc.ServicerContext,  # noqa: ARG002  (gRPC's signature)
    ) -> pb.AdminStatusResponse:
        """Say which policy is in force, what the audit log's last line is, and what is given up."""
        policy = pb.PolicyStatus(generation=self._policy.generation, broken=self._policy.broken)
        steps = [
            pb.HardeningStep(step=step.name, state=step.state, reason=step.reason)
            for step in self._steps
        ]
        answer = pb.AdminStatusResponse(policy=policy, hardening=steps)
        log = self._trail.log
        if log is not None:
            last = log.last
            audit = pb.AuditStatus(sequence=last.sequence, mac=last.mac, writable=log.writable)
            answer.audit.CopyFrom(audit)
        return answer
