"""The servicer of `sealcar.v1.PackageStore`: messages to values of the service, and back."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Final

from sealcar.v1 import package_store_pb2 as pb
from sealcar.v1 import package_store_pb2_grpc
from sealcar_server.endpoints import grpc_managing, messages
from sealcar_server.endpoints.grpc_exports import Exports
from sealcar_server.endpoints.grpc_importing import take_in
from sealcar_server.endpoints.package_messages import (
    detail_message,
    page_start,
    page_token,
    resealed_message,
    resolved_message,
    summary_message,
    validated_message,
)
from sealcar_server.endpoints.reporting import Reporting
from sealcar_server.service.listing import Only

if TYPE_CHECKING:
    from collections.abc import Iterator

    import grpc

    from sealcar_server.endpoints.grpc_payloads import Callers, Meter
    from sealcar_server.service.assembly import Service

MAX_PAGE: Final = 1000


class PackagesServicer(package_store_pb2_grpc.PackageStoreServicer):
    """The catalogue.

    Args:
        service: does it.
        caller: gives the principal behind a call.
        receiver: the same, of a caller that is going to get plaintext.
        meter: told the plaintext bytes that come and leave.
    """

    def __init__(
        self,
        service: Service,
        caller: Callers,
        receiver: Callers,
        meter: Meter,
    ) -> None:
        self._service = service
        self._caller, self._meter = caller, meter
        self._exports = Exports(service.exporter, caller, receiver, meter)

    def List(self, request: pb.ListRequest, context: grpc.ServicerContext) -> pb.ListResponse:  # noqa: N802  (wire name)
        """List a page of the packages that the caller may list."""
        size = request.page_size if 0 < request.page_size <= MAX_PAGE else MAX_PAGE
        caller, after = self._caller(context), page_start(request.page_token)
        only = Only(request.current_only, request.component, request.ep)
        page = self._service.listing.list(caller, request.name_prefix, after, size, only=only)
        # a full page may be the last: then an empty one follows
        token = page_token(page[-1]) if len(page) == size else ""
        return pb.ListResponse(
            packages=[summary_message(one) for one in page], next_page_token=token
        )

    def Get(self, request: pb.GetRequest, context: grpc.ServicerContext) -> pb.GetResponse:  # noqa: N802  (wire name)
        """Describe one package."""
        caller, package = self._caller(context), request.package
        detail = self._service.looking.get(
            caller, package.name, package.version, request.generation
        )
        return detail_message(detail)

    def Resolve(  # noqa: N802  (wire name)
        self, request: pb.ResolveRequest, context: grpc.ServicerContext
    ) -> pb.ResolveResponse:
        """Say what a reference of a variant stands for."""
        caller, scope = self._caller(context), messages.scope_key(request.scope)
        return resolved_message(self._service.looking.resolve(caller, scope, request.reference))

    def Validate(  # noqa: N802  (wire name)
        self, request: pb.ValidateRequest, context: grpc.ServicerContext
    ) -> pb.ValidateResponse:
        """Tell all that is wrong with the structure of a generation."""
        caller, package = self._caller(context), request.package
        place = (package.name, package.version, request.generation)
        return validated_message(self._service.validator.validate(caller, *place))

    def Reseal(self, request: pb.ResealRequest, context: grpc.ServicerContext) -> pb.ResealResponse:  # noqa: N802  (wire name)
        """Seal an edited manifest."""
        caller, package = self._caller(context), request.package
        looked_at = None if request.dry_run else request.manifest_sha256
        return resealed_message(
            self._service.resealer.reseal(caller, package.name, package.version, looked_at)
        )

    def Import(  # noqa: N802  (wire name)
        self, request_iterator: Iterator[pb.ImportRequest], context: grpc.ServicerContext
    ) -> Iterator[pb.ImportResponse]:
        """Take a package in, telling about once a mebibyte how far it is."""
        caller = self._caller(context)
        moved = partial(self._meter.moved, "write", "grpc")
        yield from take_in(self._service.packages, caller, request_iterator, moved)

    def Export(  # noqa: N802  (wire name)
        self, request: pb.ExportRequest, context: grpc.ServicerContext
    ) -> Iterator[pb.ExportResponse]:
        """Send a generation away, file by file."""
        yield from self._exports.send(context, request)

    def SetCurrent(  # noqa: N802  (wire name)
        self, request: pb.SetCurrentRequest, context: grpc.ServicerContext
    ) -> pb.SetCurrentResponse:
        """Make another version the one that an empty version means."""
        return grpc_managing.set_current(self._service, self._caller(context), request)

    def Remove(  # noqa: N802  (wire name)
        self, request: pb.RemoveRequest, context: grpc.ServicerContext
    ) -> pb.RemoveResponse:
        """Take a version, or one generation of it, out of the store."""
        return grpc_managing.remove(self._service, self._caller(context), request)

    def Prune(  # noqa: N802  (wire name)
        self, request: pb.PruneRequest, context: grpc.ServicerContext
    ) -> pb.PruneResponse:
        """Remove generations that were followed by others, and what crashes left."""
        return grpc_managing.prune(self._service, self._caller(context), request)

    def Verify(  # noqa: N802  (wire name)
        self, request: pb.VerifyRequest, context: grpc.ServicerContext
    ) -> Iterator[pb.VerifyResponse]:
        """Read and check every byte of a package, telling how far it is."""
        caller, package = self._caller(context), request.package
        place = (package.name, package.version, request.generation)
        work = Reporting(
            lambda report: self._service.packages.verify(
                caller, *place, report, request.resume_token
            )
        )
        for step in work.steps():
            yield pb.VerifyResponse(
                progress=pb.Progress(
                    done=step.done,
                    total=step.total,
                    payload=step.payload,
                    resume_token=step.token,
                )
            )
        found = work.result()
        verified = pb.Verified(
            generation=found.generation, payloads=found.payloads, size=found.size
        )
        yield pb.VerifyResponse(verified=verified)
