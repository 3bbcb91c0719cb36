"""The servicer of `sealcar.v1.PackageStore`: messages to values of the service, and back."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from sealcar.errors import InvalidRequestError, WrongStateError
from sealcar.v1 import common_pb2 as common
from sealcar.v1 import package_store_pb2 as pb
from sealcar.v1 import package_store_pb2_grpc
from sealcar_server.endpoints import messages
from sealcar_server.endpoints.reporting import Reporting
from sealcar_server.service.values import ImportPlan

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    import grpc

    from sealcar_server.access.permit import Permit
    from sealcar_server.access.principal import Principal
    from sealcar_server.service.importing import ImportSession
    from sealcar_server.service.packages import Packages
    from sealcar_server.service.values import Imported, PackageSummary

MAX_PAGE: Final = 1000
MAX_DATA: Final = 1 << 20  # of one message
_PROGRESS: Final = 1 << 20  # bytes between two messages of progress
_TOKEN: Final = re.compile(r"([a-z0-9._+-]{1,64})/([a-z0-9._+-]{1,64})")


class PackagesServicer(package_store_pb2_grpc.PackageStoreServicer):
    """The catalogue.

    Args:
        packages: does it.
        caller: gives the principal behind `context.peer()`.
    """

    def __init__(self, packages: Packages, caller: Callable[[str], Principal]) -> None:
        self._packages = packages
        self._caller = caller

    def List(self, request: pb.ListRequest, context: grpc.ServicerContext) -> pb.ListResponse:  # noqa: N802  (wire name)
        """List a page of the packages that the caller may list."""
        size = request.page_size if 0 < request.page_size <= MAX_PAGE else MAX_PAGE
        caller, after = self._caller(context.peer()), _after(request.page_token)
        page = self._packages.list(caller, request.name_prefix, after, size)
        # a full page may be the last: then an empty one follows
        token = f"{page[-1].name}/{page[-1].version}" if len(page) == size else ""
        return pb.ListResponse(packages=[_summary(one) for one in page], next_page_token=token)

    def Get(self, request: pb.GetRequest, context: grpc.ServicerContext) -> pb.GetResponse:  # noqa: N802  (wire name)
        """Describe one package."""
        caller, package = self._caller(context.peer()), request.package
        detail = self._packages.get(caller, package.name, package.version, request.generation)
        return pb.GetResponse(
            summary=_summary(detail.summary),
            package_id=detail.package_id,
            kek_alias=detail.kek_alias,
            kek_version=detail.kek_version,
            variants=[messages.variant_message(one, one.payloads) for one in detail.variants],
            description=detail.description,
        )

    def Import(  # noqa: N802  (wire name)
        self, request_iterator: Iterator[pb.ImportRequest], context: grpc.ServicerContext
    ) -> Iterator[pb.ImportResponse]:
        """Take a package in, telling about once a mebibyte how far it is."""
        first = next(request_iterator, None)
        if first is None or first.WhichOneof("step") != "begin":
            raise WrongStateError("an import starts with begin").at(phase="import")
        begin = first.begin
        package = begin.package
        plan = ImportPlan(package.name, package.version, begin.manifest_json, begin.kek_alias)
        caller = self._caller(context.peer())
        permit = self._packages.importing(caller, package.name)
        with self._packages.import_(caller, plan) as session:
            requests = _permitted(request_iterator, permit)
            yield from _imported(
                session, requests, lambda count: self._packages.publish(caller, session, count)
            )

    def Verify(  # noqa: N802  (wire name)
        self, request: pb.VerifyRequest, context: grpc.ServicerContext
    ) -> Iterator[pb.VerifyResponse]:
        """Read and check every byte of a package, telling how far it is."""
        caller, package = self._caller(context.peer()), request.package
        work = Reporting(
            lambda report: self._packages.verify(
                caller, package.name, package.version, request.generation, report
            )
        )
        for step in work.steps():
            yield pb.VerifyResponse(
                progress=pb.Progress(done=step.done, total=step.total, payload=step.payload)
            )
        found = work.result()
        verified = pb.Verified(
            generation=found.generation, payloads=found.payloads, size=found.size
        )
        yield pb.VerifyResponse(verified=verified)


def _permitted(requests: Iterator[pb.ImportRequest], permit: Permit) -> Iterator[pb.ImportRequest]:
    for request in requests:
        permit.check()
        yield request


def _imported(
    session: ImportSession,
    requests: Iterator[pb.ImportRequest],
    publish: Callable[[int], Imported],
) -> Iterator[pb.ImportResponse]:
    done = told = 0
    name = ""
    for request in requests:
        step = request.WhichOneof("step")
        if step == "payload":
            _announce(session, request.payload)
            name = request.payload.name
        elif step == "data":
            if not 1 <= len(request.data) <= MAX_DATA:
                raise InvalidRequestError(f"a message's data must have 1 to {MAX_DATA} bytes")
            session.data(request.data)
            done += len(request.data)
            if done - told >= _PROGRESS:
                told = done
                yield pb.ImportResponse(progress=pb.Progress(done=done, payload=name))
        elif step == "finish":
            yield _finished(publish(request.finish.payloads))
            return
        else:
            raise WrongStateError("after begin only payload, data and finish may follow")
    raise WrongStateError("the import was cut before finish: nothing was kept")


def _announce(session: ImportSession, payload: pb.ImportPayload) -> None:
    session.payload(
        payload.component,
        payload.variant,
        payload.name,
        messages.kind_name(payload.kind),
        payload.size,
    )


def _finished(imported: Imported) -> pb.ImportResponse:
    package = common.PackageRef(name=imported.name, version=imported.version)
    return pb.ImportResponse(
        imported=pb.Imported(
            package=package, generation=imported.generation, package_id=imported.package_id
        )
    )


def _summary(summary: PackageSummary) -> pb.PackageSummary:
    return pb.PackageSummary(
        package=common.PackageRef(name=summary.name, version=summary.version),
        generation=summary.generation,
        current=summary.current,
        components=summary.components,
        variants=summary.variants,
        payloads=summary.payloads,
        size=summary.size,
    )


def _after(token: str) -> tuple[str, str]:
    if not token:
        return "", ""
    match = _TOKEN.fullmatch(token)
    if not match:
        raise InvalidRequestError("the page token is none that a list gave")
    return match[1], match[2]
