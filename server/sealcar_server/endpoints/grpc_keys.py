"""The servicer of `sealcar.v1.Keys`, on the admin socket."""

from __future__ import annotations

from itertools import islice
from typing import TYPE_CHECKING, Final

from sealcar import details
from sealcar.errors import InvalidRequestError, WrongStateError
from sealcar.v1 import common_pb2 as common
from sealcar.v1 import keys_pb2 as pb
from sealcar.v1 import keys_pb2_grpc
from sealcar_server.endpoints.reporting import Reporting
from sealcar_server.service.rewrapping import Wanted
from sealcar_server.service.values import ScopeKey

if TYPE_CHECKING:
    from collections.abc import Iterator

    import grpc

    from sealcar_server.service.hanging import Hanging
    from sealcar_server.service.holding import Holder
    from sealcar_server.service.key_export import KeyExporter, TinkPayload
    from sealcar_server.service.keys import Keys
    from sealcar_server.service.rewrapping import Rewrapped

MAX_HANGING: Final = 1000  # in one message
MAX_TINK: Final = 500  # payloads in one message


class KeysServicer(keys_pb2_grpc.KeysServicer):
    """What operators ask of the daemon's keys.

    Args:
        keys: the use cases.
        exporter: lets keys out; None: no key leaves this daemon.
    """

    def __init__(self, keys: Keys, exporter: KeyExporter | None = None) -> None:
        self._keys, self._exporter = keys, exporter

    def Status(  # noqa: N802  (the method's name on the wire)
        self,
        request: pb.KeysStatusRequest,  # noqa: ARG002  (has no field)
        context: grpc.ServicerContext,  # noqa: ARG002  (gRPC's signature)
    ) -> pb.KeysStatusResponse:
        """Ask every provider for its health."""
        return pb.KeysStatusResponse(
            locked=self._keys.locked,
            keks=[
                pb.KekStatus(
                    alias=one.alias,
                    provider=one.provider,
                    version=one.version,
                    available=one.available,
                    problem=one.problem,
                    cached=one.cached,
                    revoked=self._keys.revoked(one.alias),
                )
                for one in self._keys.status()
            ],
        )

    def Rotate(  # noqa: N802  (wire name)
        self,
        request: pb.RotateRequest,
        context: grpc.ServicerContext,  # noqa: ARG002  (gRPC's signature)
    ) -> pb.RotateResponse:
        """Make a new version of a key."""
        alias, version = self._keys.rotate(request.alias)
        return pb.RotateResponse(alias=alias, version=version)

    def Rewrap(  # noqa: N802  (wire name)
        self,
        request: pb.RewrapRequest,
        context: grpc.ServicerContext,  # noqa: ARG002  (gRPC's signature)
    ) -> Iterator[pb.RewrapResponse]:
        """Move packages to the current version, telling how far it is."""
        packages = tuple((one.name, one.version) for one in request.packages)
        wanted = Wanted(request.from_version, packages)
        work = Reporting(lambda report: self._keys.rewrap(wanted, report))
        for step in work.steps():
            name, _, version = step.payload.partition("@")
            package = common.PackageRef(name=name, version=version)
            yield pb.RewrapResponse(
                progress=pb.RewrapProgress(done=step.done, total=step.total, package=package)
            )
        yield pb.RewrapResponse(rewrapped=_rewrapped(work.result()))

    def Report(  # noqa: N802  (wire name)
        self,
        request: pb.ReportRequest,  # noqa: ARG002  (has no field)
        context: grpc.ServicerContext,  # noqa: ARG002  (gRPC's signature)
    ) -> Iterator[pb.ReportResponse]:
        """Tell what hangs on which version."""
        found = map(_hanging, self._keys.report())
        while page := list(islice(found, MAX_HANGING)):
            yield pb.ReportResponse(hanging=page)

    def Revoke(  # noqa: N802  (wire name)
        self,
        request: pb.RevokeRequest,
        context: grpc.ServicerContext,  # noqa: ARG002  (gRPC's signature)
    ) -> pb.RevokeResponse:
        """Refuse a version of a key."""
        done = self._keys.revoke(request.version, request.alias)
        return pb.RevokeResponse(
            alias=done.alias,
            version=done.version,
            packages=done.packages,
            older=done.older,
            aborted=done.aborted,
            holders=map(_holder, done.holders),
        )

    def Shred(  # noqa: N802  (wire name)
        self,
        request: pb.ShredRequest,
        context: grpc.ServicerContext,  # noqa: ARG002  (gRPC's signature)
    ) -> pb.ShredResponse:
        """Remove a package for good."""
        done = self._keys.shred(request.package.name, request.package.version)
        return pb.ShredResponse(
            shredded=[
                pb.ShreddedVersion(
                    package=common.PackageRef(name=one.name, version=one.version),
                    generations=len(one.numbers),
                )
                for one in done.graves
            ],
            aborted=done.aborted,
            holders=map(_holder, done.holders),
        )

    def Lock(  # noqa: N802  (wire name)
        self,
        request: pb.LockRequest,  # noqa: ARG002  (has no field)
        context: grpc.ServicerContext,  # noqa: ARG002  (gRPC's signature)
    ) -> pb.LockResponse:
        """Drop every key."""
        locked = self._keys.lock()
        return pb.LockResponse(holders=map(_holder, locked.holders), aborted=locked.aborted)

    def Unlock(  # noqa: N802  (wire name)
        self,
        request: pb.UnlockRequest,  # noqa: ARG002  (has no field)
        context: grpc.ServicerContext,  # noqa: ARG002  (gRPC's signature)
    ) -> pb.UnlockResponse:
        """Open every key provider again."""
        self._keys.unlock()
        return pb.UnlockResponse()

    def ExportTink(  # noqa: N802  (wire name)
        self,
        request: pb.ExportTinkRequest,
        context: grpc.ServicerContext,  # noqa: ARG002  (gRPC's signature)
    ) -> Iterator[pb.ExportTinkResponse]:
        """Let the keys of a variant out."""
        if self._exporter is None:
            raise WrongStateError(
                "no key leaves this daemon: its setting admin.tink_export is false"
            )
        if not (request.kek or request.clear):
            raise InvalidRequestError(
                "name a key to encrypt the keyset with, or say that it is clear"
            )
        package = request.package
        scope = ScopeKey(package.name, package.version, request.component, request.variant)
        made = self._exporter.export(scope, request.kek)
        keyset = pb.TinkKeyset(
            package=common.PackageRef(name=package.name, version=made.version),
            generation=made.generation,
            keyset=made.keyset,
            kek_uri=made.kek_uri,
            associated_data=made.associated_data,
        )
        yield pb.ExportTinkResponse(keyset=keyset)
        payloads = iter(made.payloads)
        while page := list(islice(payloads, MAX_TINK)):
            yield pb.ExportTinkResponse(payloads=map(_tink_payload, page))


def _tink_payload(one: TinkPayload) -> pb.TinkPayload:
    return pb.TinkPayload(name=one.name, path=one.path, associated_data=one.associated_data)


def _holder(one: Holder) -> pb.Holder:
    who = one.principal
    return pb.Holder(
        session=one.session, listener=who.listener, uid=who.uid, gid=who.gid, pid=one.pid
    )


def _rewrapped(done: Rewrapped) -> pb.Rewrapped:
    return pb.Rewrapped(
        packages=done.packages,
        skipped=done.skipped,
        removed=done.removed,
        store_key=done.store_key,
        failures=map(details.to_detail, done.failures),
        failed=done.failed,
    )


def _hanging(one: Hanging) -> pb.Hanging:
    package = common.PackageRef(name=one.name, version=one.version) if one.name else None
    return pb.Hanging(
        package=package,
        generation=one.generation,
        newest=one.newest,
        alias=one.kek_alias,
        version=one.kek_version,
        problem=one.problem,
    )
