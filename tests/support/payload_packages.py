"""Packages of arbitrary payloads, for tests that care for bytes and not for models."""

from __future__ import annotations

import json
import os
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from support.onnx_bytes import TINY

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from sealcar.client import Client

PACKAGE: Final = "m"
COMPONENT: Final = "c"
VARIANT: Final = "v"
_PIECE: Final = 1 << 20


@dataclass(frozen=True)
class PlannedBytes:
    """A payload that waits in memory."""

    name: str
    kind: str
    data: bytes
    component: str = COMPONENT
    variant: str = VARIANT
    asset: str = ""

    @property
    def size(self) -> int:
        return len(self.data)

    def chunks(self) -> Iterator[bytes]:
        for at in range(0, len(self.data), _PIECE):
            yield self.data[at : at + _PIECE]


@dataclass(frozen=True)
class PlannedPackage:
    """A package of one variant, as the catalogue's client takes it."""

    payloads: tuple[PlannedBytes, ...]
    name: str = PACKAGE
    version: str = "1"

    @property
    def manifest_json(self) -> str:
        variants: dict[str, object] = {VARIANT: {}}
        return json.dumps(
            {"schema_version": "1.0", "components": {COMPONENT: {"variants": variants}}}
        )


def varied(size: int) -> bytes:
    """Return bytes of which no two MiB are equal, quickly."""
    block = os.urandom(min(size, _PIECE))
    blocks = -(-size // _PIECE) if size else 0
    return b"".join(at.to_bytes(8, "big") + block[8:] for at in range(blocks))[:size]


def publish(client: Client, payloads: Mapping[str, bytes], name: str = PACKAGE) -> None:
    """Import a package of these payloads beside a small model."""
    planned = [PlannedBytes("model.onnx", "model", TINY)]
    planned += [PlannedBytes(each, "blob", data) for each, data in payloads.items()]
    client.catalogue.import_(PlannedPackage(tuple(planned), name))
