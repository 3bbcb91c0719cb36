"""The calls that change which packages there are, from messages to the service and back."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sealcar.v1 import common_pb2 as common
from sealcar.v1 import package_store_pb2 as pb
from sealcar_server.service.pruning import Wanted

if TYPE_CHECKING:
    from sealcar_server.access.principal import Principal
    from sealcar_server.service.assembly import Service


def set_current(
    service: Service, caller: Principal, request: pb.SetCurrentRequest
) -> pb.SetCurrentResponse:
    """Make another version the current one; raises as `Choosing.choose`."""
    package = request.package
    previous = service.choosing.choose(caller, package.name, package.version)
    return pb.SetCurrentResponse(previous_version=previous)


def remove(service: Service, caller: Principal, request: pb.RemoveRequest) -> pb.RemoveResponse:
    """Take a version, or one generation of it, out of the store; raises as `Removing.remove`."""
    package = request.package
    gone = service.removing.remove(caller, package.name, package.version, request.generation)
    return pb.RemoveResponse(generations=gone)


def prune(service: Service, caller: Principal, request: pb.PruneRequest) -> pb.PruneResponse:
    """Remove what was followed by others; raises as `Pruning.prune`."""
    package = request.package
    wanted = Wanted(package.name, package.version, request.keep, request.dry_run)
    pruned = service.pruning.prune(caller, wanted)
    return pb.PruneResponse(
        generations=[
            pb.PrunedGeneration(
                package=common.PackageRef(name=name, version=version), generation=number
            )
            for name, version, number in pruned.generations
        ],
        freed=pruned.freed,
    )
