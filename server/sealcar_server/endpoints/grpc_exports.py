"""The steps of one export, from the service to its call."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sealcar.v1 import common_pb2 as common
from sealcar.v1 import package_store_pb2 as pb
from sealcar_server.endpoints.grpc_payloads import Scratches
from sealcar_server.service.exporting import Preparing
from sealcar_server.service.failing import during
from sealcar_server.service.outgoing import Outgoing
from sealcar_server.service.transit import Recipient

if TYPE_CHECKING:
    from collections.abc import Iterator

    import grpc

    from sealcar_server.endpoints.grpc_payloads import Callers, Meter
    from sealcar_server.service.exporting import Export, Exporter, Step


class Exports:
    """Sends generations to callers.

    Args:
        exporter: does it.
        caller: gives the principal behind a call.
        receiver: the same, of a caller that is going to get plaintext, or the key to it.
        meter: told the plaintext bytes.
    """

    def __init__(
        self,
        exporter: Exporter,
        caller: Callers,
        receiver: Callers,
        meter: Meter,
    ) -> None:
        self._exporter, self._meter = exporter, meter
        self._caller, self._receiver = caller, receiver
        self._scratches = Scratches()

    def send(
        self, context: grpc.ServicerContext, request: pb.ExportRequest
    ) -> Iterator[pb.ExportResponse]:
        """Send a generation, file by file.

        Raises:
            SealcarError: whatever the service raises; what was sent is incomplete then.
        """
        package = request.package
        place = (package.name, package.version, request.generation)
        # who brings a key opens what he gets
        opens = request.plain or bool(request.recipient_key)
        caller = (self._receiver if opens else self._caller)(context)
        export = self._exporter.export(
            caller, place, plain=request.plain, recipient=_recipient(request)
        )
        known = {"package": export.place.name, "version": export.place.version}
        files = 0
        with during("export", **known), self._scratches.one() as scratch:
            for step in export.steps(scratch):
                if isinstance(step, bytes) and request.plain:
                    self._meter.moved("read", "grpc", len(step))
                files += isinstance(step, Outgoing)
                yield _message(export, step)
        yield pb.ExportResponse(finish=pb.ExportFinish(files=files))


def _recipient(request: pb.ExportRequest) -> Recipient | None:
    if not (request.recipient or request.recipient_key or request.not_after):
        return None
    return Recipient(request.recipient, request.recipient_key, request.not_after)


def _message(export: Export, step: Step) -> pb.ExportResponse:
    if isinstance(step, bytes):
        return pb.ExportResponse(data=step)
    if isinstance(step, Preparing):
        return pb.ExportResponse(progress=pb.Progress(done=step.done))
    if isinstance(step, Outgoing):
        return pb.ExportResponse(file=pb.ExportFile(path=step.path, size=step.size))
    place = export.place
    begin = pb.ExportBegin(
        package=common.PackageRef(name=place.name, version=place.version),
        generation=place.number,
        files=step.files,
        size=step.size,
    )
    return pb.ExportResponse(begin=begin)
