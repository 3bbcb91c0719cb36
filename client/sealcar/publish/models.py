"""One model, made ready for sealing: checked, and its big initializers moved out of it."""

from __future__ import annotations

import posixpath
from dataclasses import dataclass
from typing import TYPE_CHECKING

from sealcar import onnxscan
from sealcar.errors import InvalidPackageError
from sealcar.publish import references
from sealcar.publish.sources import CHUNK

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from sealcar.publish.sources import SourceFile, SourceTree


@dataclass(frozen=True)
class PreparedModel:
    """A checked model.

    Attributes:
        file: as it was found.
        parts: as it is published.
        moved_name: of the payload with the moved initializers; empty if none was moved.
        external: names of files with external data.
        blobs: names of blobs beside it.
    """

    file: SourceFile
    parts: onnxscan.Externalised
    moved_name: str
    external: tuple[str, ...]
    blobs: tuple[str, ...]

    def model_chunks(self) -> Iterator[bytes]:
        """Yield the published model, in pieces of at most 1 MiB."""
        yield from _rechunked(self.parts.model)
        self.file.check_unchanged()

    def moved_chunks(self) -> Iterator[bytes]:
        """Yield the moved initializers, in pieces of at most 1 MiB."""
        yield from _rechunked(self.parts.data)
        self.file.check_unchanged()


def prepare(file: SourceFile, tree: SourceTree, taken: Iterable[str]) -> PreparedModel:
    """Check a model and split it.

    Args:
        file: the model.
        tree: where it lies.
        taken: names that the moved initializers can't have.

    Raises:
        InvalidPackageError: no ONNX model, or one that refers to what it must not; names tensor and
        rule.
    """
    view = file.map()
    try:
        scan = onnxscan.scan(view)
        external = references.external_files(scan, file.name, tree)
        blobs = references.blob_files(scan, file.name)
        used = {name.casefold() for name in (*taken, *external, *blobs, file.name)}
        moved = _free_name(file.name, used)
        parts = onnxscan.externalise(view, location=posixpath.basename(moved))
    except InvalidPackageError as error:
        raise error.at(phase="check", payload=file.name) from None
    return PreparedModel(file, parts, moved if parts.moved else "", tuple(external), tuple(blobs))


def _free_name(model: str, used: set[str]) -> str:
    name, number = f"{model}.data", 1
    while name.casefold() in used:
        number += 1
        name = f"{model}.data{number}"
    return name


def _rechunked(pieces: Iterable[bytes | memoryview]) -> Iterator[bytes]:
    """Yield the same bytes in pieces of 1 MiB: rewritten models come in thousands of small ones."""
    pending = bytearray()
    for piece in pieces:
        for at in range(0, len(piece), CHUNK):
            part = piece[at : at + CHUNK]
            if not pending and len(part) == CHUNK:
                yield bytes(part)
                continue
            pending += part
            if len(pending) >= CHUNK:
                yield bytes(pending[:CHUNK])
                del pending[:CHUNK]
    if pending:
        yield bytes(pending)
