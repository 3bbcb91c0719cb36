"""The servicer of `sealcar.v1.Admin`, on the admin socket."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from sealcar.v1 import admin_pb2 as pb
from sealcar.v1 import admin_pb2_grpc

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    import grpc

    from sealcar_server.access.audit.trail import Trail
    from sealcar_server.access.live_policy import LivePolicy
    from sealcar_server.access.sessions import Session
    from sealcar_server.hardening.confinement import Step
    from sealcar_server.store.interface import Store


_MAX_SESSIONS: Final = 1000


@dataclass(frozen=True)
class Watched:
    """What a live view shows.

    Attributes:
        samples: returns name, labels and value of every figure.
        sessions: returns the client processes that are connected.
        store: where packages are.
    """

    samples: Callable[[], Iterable[tuple[str, dict[str, str], float]]]
    sessions: Callable[[], list[Session]]
    store: Store


class AdminServicer(admin_pb2_grpc.AdminServicer):
    """Says what operators keep an eye on."""

    def __init__(
        self, policy: LivePolicy, trail: Trail, steps: Sequence[Step], watched: Watched
    ) -> None:
        self._policy, self._trail, self._steps = policy, trail, steps
        self._watched = watched

    def Figures(  # noqa: N802  (the method's name on the wire)
        self,
        request: pb.FiguresRequest,  # noqa: ARG002  (has no field)
        context: grpc.ServicerContext,  # noqa: ARG002  (gRPC's signature)
    ) -> pb.FiguresResponse:
        """Say what /metrics would, and who is connected."""
        figures = [
            pb.Figure(name=name, labels=labels, value=value)
            for name, labels, value in self._watched.samples()
        ]
        sessions = self._watched.sessions()[:_MAX_SESSIONS]
        return pb.FiguresResponse(figures=figures, sessions=map(_session, sessions))

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
        place = self._watched.store
        store = pb.StoreStatus(bucket=place.bucket, failure=place.failure())
        answer = pb.AdminStatusResponse(policy=policy, hardening=steps, store=store)
        log = self._trail.log
        if log is not None:
            last = log.last
            audit = pb.AuditStatus(sequence=last.sequence, mac=last.mac, writable=log.writable)
            answer.audit.CopyFrom(audit)
        return answer


def _session(session: Session) -> pb.SessionInfo:
    return pb.SessionInfo(
        session=session.id,
        listener=session.principal.listener,
        uid=session.principal.uid,
        pid=session.pid,
        connections=len(session.connections),
        received=session.received,
    )
