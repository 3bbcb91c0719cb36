"""The steps of one import, from its call to the service."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Final

from sealcar.errors import InvalidRequestError, WrongStateError
from sealcar.v1 import common_pb2 as common
from sealcar.v1 import package_store_pb2 as pb
from sealcar_server.endpoints import messages
from sealcar_server.endpoints.reporting import Reporting
from sealcar_server.service.values import ImportPlan

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from sealcar_server.access.permit import Permit
    from sealcar_server.access.principal import Principal
    from sealcar_server.service.importers import Session
    from sealcar_server.service.packages import Packages
    from sealcar_server.service.values import Imported

MAX_DATA: Final = 1 << 20  # of one message
_PROGRESS: Final = 1 << 20  # bytes between two messages of progress
_REPEAT: Final = 2.0  # seconds: clients give up after half a minute of silence


def take_in(
    packages: Packages,
    caller: Principal,
    requests: Iterator[pb.ImportRequest],
    moved: Callable[[int], None],
) -> Iterator[pb.ImportResponse]:
    """Take a package in, telling about once a mebibyte, and every few seconds, how far it is.

    Args:
        packages: does it.
        caller: who sends it.
        requests: the steps.
        moved: told the plaintext bytes that came.

    Raises:
        SealcarError: a step is out of order, or whatever the service raises.
    """
    first = next(requests, None)
    if first is None or first.WhichOneof("step") != "begin":
        raise WrongStateError("an import starts with begin").at(phase="import")
    begin = first.begin
    package = begin.package
    plan = ImportPlan(
        package.name, package.version, begin.manifest_json, begin.kek_alias, sealed=begin.sealed
    )
    permit = packages.importing(caller, package.name)
    with packages.import_(caller, plan) as session:
        session.in_use.bind(permit)
        yield from _imported(
            session,
            _counted(_permitted(requests, permit), moved if not begin.sealed else _uncounted),
            lambda count: packages.publish(caller, session, count),
        )


def _permitted(requests: Iterator[pb.ImportRequest], permit: Permit) -> Iterator[pb.ImportRequest]:
    for request in requests:
        permit.check()
        permit.renew()
        yield request


def _counted(
    requests: Iterator[pb.ImportRequest], moved: Callable[[int], None]
) -> Iterator[pb.ImportRequest]:
    for request in requests:
        if request.data:
            moved(len(request.data))
        yield request


def _uncounted(_count: int) -> None:
    """Leave ciphertext out of what is counted as plaintext."""


def _imported(
    session: Session,
    requests: Iterator[pb.ImportRequest],
    publish: Callable[[int], Imported],
) -> Iterator[pb.ImportResponse]:
    came = pb.Progress()
    told, at = 0, time.monotonic()
    for request in requests:
        if request.WhichOneof("step") == "finish":
            yield from _published(publish, request.finish.payloads, came)
            return
        _take(session, request, came)
        # each file takes its time, however small it is
        if came.done - told >= _PROGRESS or time.monotonic() - at >= _REPEAT:
            told, at = came.done, time.monotonic()
            yield pb.ImportResponse(progress=came)
    raise WrongStateError("the import was cut before finish: nothing was kept")


def _take(session: Session, request: pb.ImportRequest, came: pb.Progress) -> None:
    """Take one message in, and note in `came` how far it is."""
    step = request.WhichOneof("step")
    if step == "payload":
        _announce(session, request.payload)
        came.payload = request.payload.name
    elif step == "data":
        if not 1 <= len(request.data) <= MAX_DATA:
            raise InvalidRequestError(f"a message's data must have 1 to {MAX_DATA} bytes")
        session.data(request.data)
        came.done += len(request.data)
    else:
        raise WrongStateError("after begin only payload, data and finish may follow")


def _published(
    publish: Callable[[int], Imported], count: int, came: pb.Progress
) -> Iterator[pb.ImportResponse]:
    # it may take long: everything that came is made durable, and much of it read again
    work = Reporting(lambda _: publish(count))
    for _ in work.steps():
        yield pb.ImportResponse(progress=came)
    yield _finished(work.result())


def _announce(session: Session, payload: pb.ImportPayload) -> None:
    session.payload(
        payload.component,
        payload.variant,
        payload.name,
        messages.kind_name(payload.kind),
        payload.size,
        asset=payload.asset,
    )


def _finished(imported: Imported) -> pb.ImportResponse:
    package = common.PackageRef(name=imported.name, version=imported.version)
    return pb.ImportResponse(
        imported=pb.Imported(
            package=package, generation=imported.generation, package_id=imported.package_id
        )
    )
