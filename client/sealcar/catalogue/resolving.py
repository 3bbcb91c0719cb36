"""What a name in a package stands for."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from sealcar.transfer.scopes import payload_ref

if TYPE_CHECKING:
    from sealcar.transfer.payloads import PayloadRef
    from sealcar.v1 import package_store_pb2 as pb


@dataclass(frozen=True)
class Resolved:
    """What a reference of a variant stands for.

    Attributes:
        name, version, component, variant, generation: what was found.
        payloads: the one that it names, or all in the folder that it names; empty without one.
    """

    name: str
    version: str
    component: str
    variant: str
    generation: int
    payloads: tuple[PayloadRef, ...]


def resolved(message: pb.ResolveResponse) -> Resolved:
    """Take what a reference stands for off the wire."""
    scope = message.scope
    return Resolved(
        name=scope.package.name,
        version=scope.package.version,
        component=scope.component,
        variant=scope.variant,
        generation=scope.generation,
        payloads=tuple(map(payload_ref, message.payloads)),
    )
