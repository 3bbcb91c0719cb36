"""Payloads of any size that are made as they are written: in plain, sealed, and in a package."""

from __future__ import annotations

import hashlib
import json
import os
from contextlib import closing
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from support.onnx_bytes import TINY
from support.payload_packages import COMPONENT, PACKAGE, VARIANT, PlannedBytes

from sealcar_server.sealing.derivation import PayloadKey
from sealcar_server.sealing.layout import Layout
from sealcar_server.sealing.scratch import Scratch
from sealcar_server.sealing.writer import SealedWriter

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

    from sealcar import Client

PIECE: Final = 1 << 20
_NUMBER: Final = 8
# no zeros, which a file system could leave out, and the same in each run
_BLOCK: Final = hashlib.shake_256(b"sealcar bench").digest(PIECE - _NUMBER)
# of random bytes that nobody keeps secret: what holds the key is what is measured
KEY: Final = PayloadKey(bytes(range(32)), b"bench")


@dataclass(frozen=True)
class Bulk:
    """Bytes of which no two MiB are equal: each begins with its number.

    As a payload it goes into a package.
    """

    name: str
    size: int
    kind: str = "blob"
    component: str = COMPONENT
    variant: str = VARIANT
    asset: str = ""
    block: bytes = field(default=_BLOCK, repr=False)

    def chunks(self) -> Iterator[bytes]:
        """Make them, a MiB at a time."""
        for at in range(0, self.size, PIECE):
            piece = (at // PIECE).to_bytes(_NUMBER, "big") + self.block
            yield piece[: self.size - at]

    def write(self, path: Path) -> Path:
        """Write them in plain, until they are on the disk."""
        with path.open("wb") as file:
            for chunk in self.chunks():
                file.write(chunk)
            file.flush()
            os.fsync(file.fileno())
        return path

    def seal(self, path: Path) -> Path:
        """Write them sealed as a daemon would, under a key that everybody knows."""
        fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_TRUNC, 0o600)
        layout, scratch = Layout.of_plain(self.size), Scratch()
        chunks, rest = self.chunks(), b""
        with closing(SealedWriter(fd, KEY)) as writer:
            for index in range(layout.count):
                need = layout.span(index).plain_size
                while len(rest) < need:
                    rest += next(chunks)
                scratch.plain[:need] = rest[:need]
                writer.seal_segment(index, scratch, need, last=index == layout.count - 1)
                rest = rest[need:]
            writer.finish()
        return path


@dataclass(frozen=True)
class Package:
    """A package of one variant, as the catalogue's client takes it."""

    payloads: tuple[PlannedBytes | Bulk, ...]
    name: str = PACKAGE
    version: str = "1"

    @property
    def manifest_json(self) -> str:
        variants: dict[str, object] = {VARIANT: {}}
        return json.dumps(
            {"schema_version": "1.0", "components": {COMPONENT: {"variants": variants}}}
        )


def publish(client: Client, payloads: Sequence[Bulk], name: str = PACKAGE) -> None:
    """Import a package of these payloads beside a small model."""
    model = PlannedBytes("model.onnx", "model", TINY)
    client.catalogue.import_(Package((model, *payloads), name))


def check(view: memoryview) -> None:
    """Look whether all pieces arrived where they belong.

    Raises:
        AssertionError: other bytes came.
    """
    for at in range(0, len(view) - _NUMBER, PIECE):
        if int.from_bytes(view[at : at + _NUMBER], "big") != at // PIECE:
            raise AssertionError(f"other bytes came at {at}")
