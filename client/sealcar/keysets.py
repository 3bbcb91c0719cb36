"""Keys that the daemon lets out, for any Tink: the only ones that a client ever sees."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from sealcar.asking import asking
from sealcar.errors import UnavailableError
from sealcar.v1 import common_pb2 as common
from sealcar.v1 import keys_pb2 as pb

if TYPE_CHECKING:
    from collections.abc import Iterable

    from sealcar.address import Address


@dataclass(frozen=True)
class TinkPayload:
    """What a Tink needs for one payload, apart from its key.

    Attributes:
        name: as it is read through the variant.
        path: of its file, relative to the generation's directory in the store.
        associated_data: for Tink's streaming AEAD.
    """

    name: str
    path: str
    associated_data: bytes


@dataclass(frozen=True)
class TinkExport:
    """The keys of a variant, for any Tink.

    Attributes:
        version, generation: what it came down to.
        keyset: in Tink's JSON format.
        kek_uri: of the key that it is encrypted under, as Tink writes it; empty: it is clear.
        associated_data: of that encryption.
        payloads: that it opens.
    """

    version: str
    generation: int
    keyset: bytes = field(repr=False)
    kek_uri: str
    associated_data: bytes
    payloads: tuple[TinkPayload, ...]


def request_of(scope: Address, kek: str) -> pb.ExportTinkRequest:
    """Ask for the keys of a variant, encrypted under this alias; without one, in the clear."""
    with asking():
        request = pb.ExportTinkRequest(
            package=common.PackageRef(name=scope.name, version=scope.version),
            component=scope.component,
            variant=scope.variant,
        )
        if kek:
            request.kek = kek
        else:
            request.clear = True
    return request


def gathered(answers: Iterable[pb.ExportTinkResponse]) -> TinkExport:
    """Put the parts of the answer together.

    Raises:
        UnavailableError: it has no keyset.
    """
    found = pb.TinkKeyset()
    payloads: list[TinkPayload] = []
    for answer in answers:
        if answer.HasField("keyset"):
            found = answer.keyset
        payloads += [
            TinkPayload(one.name, one.path, one.associated_data) for one in answer.payloads
        ]
    if not found.keyset:
        raise UnavailableError("the daemon ended without a keyset")
    return TinkExport(
        found.package.version,
        found.generation,
        found.keyset,
        found.kek_uri,
        found.associated_data,
        tuple(payloads),
    )
