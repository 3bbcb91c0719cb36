"""One model, made ready for sealing: checked, and its big initializers moved out of it."""

from __future__ import annotations

import posixpath
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from sealcar import onnxscan
from sealcar.errors import InvalidPackageError
from sealcar.onnxscan import rules
from sealcar.onnxscan.scanner import MAX_MODEL
from sealcar.publish.files import CHUNK, checked_name
from sealcar.publish.payloads import BLOB, INITIALIZERS, MODEL

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from sealcar.publish.files import SourceFile
    from sealcar.publish.payloads import Payloads

_ONNX: Final = ".onnx"
_ORT: Final = ".ort"


@dataclass(frozen=True)
class Place:
    """Where files are looked for.

    Attributes:
        payloads: whose they become: of the variant or of a shared asset.
        path: the folder in there; empty for the top.
    """

    payloads: Payloads
    path: str

    def name(self, file: str) -> str:
        """Return the name of a file in there, relative to the variant or asset."""
        return posixpath.join(self.path, file)


@dataclass(frozen=True)
class Around:
    """Where a model's files are, as ONNX Runtime looks for them.

    Attributes:
        initializers: external data.
        blobs: of EPContext nodes.
    """

    initializers: Place
    blobs: Place


def is_model(name: str) -> bool:
    """Tell from its name whether a file is a model."""
    return name.casefold().endswith((_ONNX, _ORT))


def beside(payloads: Payloads, name: str) -> Around:
    """Return where a model's files are unless ONNX Runtime is told otherwise."""
    place = Place(payloads, posixpath.dirname(name))
    return Around(place, place)


def add_model(
    payloads: Payloads, name: str, around: Around, *, taken: Iterable[str] | None
) -> None:
    """Check a model, and add it with everything that it refers to.

    Args:
        payloads: that it belongs to.
        name: in there.
        around: where its files are.
        taken: names that a payload with moved initializers can't have; None: none are moved.

    Raises:
        InvalidPackageError: no model, or one that refers to what it must not; names tensor and
            rule.
    """
    file = payloads.tree.open(name)
    view = file.map()
    try:
        referenced = _referenced(view, name, around)
        beside_it = {found for place, found, _ in referenced if place.payloads is payloads}
        if taken is None or onnxscan.is_ort_format(view):
            payloads.add(name, MODEL, file.size, file.chunks)
        else:
            _add_split(payloads, file, view, {*taken, *payloads.names, *beside_it})
        for place, found, kind in referenced:
            place.payloads.add_file(found, kind)
    except InvalidPackageError as error:
        raise error.at(phase="check", payload=name) from None


def _referenced(view: memoryview, model: str, around: Around) -> list[tuple[Place, str, str]]:
    """Return the files that a model refers to, checked: where each lies, its name and its kind."""
    if onnxscan.is_ort_format(view):
        if len(view) > MAX_MODEL:
            raise InvalidPackageError(f"the model has {len(view)} bytes, more than {MAX_MODEL}")
        return []
    if model.casefold().endswith(_ORT):
        raise InvalidPackageError("it is named .ort, but isn't in ONNX Runtime's own format")
    place = around.initializers

    def find(location: str) -> list[tuple[str, int]]:
        name = place.name(location)
        return [(name, place.payloads.tree.open(name).size)]

    scan = onnxscan.scan(view)
    external = rules.external_files(scan, find)
    # blobs have bare names: they lie at the top of whatever they lie in, and so does the model
    beside_blobs = around.blobs.name(posixpath.basename(model))
    blobs = rules.blob_files(scan, model if "/" in model else beside_blobs)
    return [
        *((place, name, INITIALIZERS) for name in external),
        *((around.blobs, name, BLOB) for name in blobs),
    ]


def _add_split(payloads: Payloads, file: SourceFile, view: memoryview, taken: set[str]) -> None:
    moved = _free_name(file.name, {name.casefold() for name in (*taken, file.name)})
    parts = onnxscan.externalise(view, location=posixpath.basename(moved))
    if not parts.moved:
        payloads.add(file.name, MODEL, file.size, file.chunks)
        return
    split = _SplitModel(file, parts)
    payloads.add(file.name, MODEL, parts.model_size, split.model_chunks)
    payloads.add(checked_name(moved), INITIALIZERS, parts.data_size, split.moved_chunks)


@dataclass(frozen=True)
class _SplitModel:
    file: SourceFile
    parts: onnxscan.Externalised

    def model_chunks(self) -> Iterator[bytes]:
        yield from _rechunked(self.parts.model)
        self.file.check_unchanged()

    def moved_chunks(self) -> Iterator[bytes]:
        yield from _rechunked(self.parts.data)
        self.file.check_unchanged()


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
