"""Which payloads a variant has: every file of it, each in exactly one role."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from sealcar import names
from sealcar.errors import InvalidPackageError
from sealcar.names import shown
from sealcar.publish.models import prepare

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from sealcar.modelpackage import Variant
    from sealcar.publish.sources import SourceFile, SourceTree

_ENDING: Final = ".onnx"
MODEL: Final = "model"
INITIALIZERS: Final = "initializers"
BLOB: Final = "blob"
OTHER: Final = "other"


@dataclass(frozen=True)
class PlannedPayload:
    """One payload that is to be imported.

    Attributes:
        component, variant: where it goes; empty for a file of a shared asset.
        name: relative to the variant, or to the asset.
        kind: `model`, `initializers`, `blob` or `other`.
        size: bytes; the chunks add up to it.
        asset: URI of the shared asset that it belongs to; else empty.
    """

    component: str
    variant: str
    name: str
    kind: str
    size: int
    _chunks: Callable[[], Iterator[bytes]] = field(repr=False)
    asset: str = ""

    def chunks(self) -> Iterator[bytes]:
        """Yield the payload, in pieces of at most 1 MiB.

        Raises:
            InvalidPackageError: the file changed since it was checked.
            StorageError: it can't be read.
        """
        yield from self._chunks()


def collect_model(
    tree: SourceTree, name: str, component: str, variant: str
) -> list[PlannedPayload]:
    """Return the payloads of one model file and of what it refers to.

    Raises:
        InvalidPackageError: naming the place and the rule.
    """
    file = tree.open(name, named_by_caller=True)
    collected = _Collected(tree, component, variant)
    collected.add_model(file)
    return collected.payloads()


def collect_all(tree: SourceTree, component: str, variant: Variant) -> list[PlannedPayload]:
    """Return the payloads of a variant's directory: all files in it, models checked.

    Raises:
        InvalidPackageError: naming the place and the rule.
    """
    try:
        collected = _Collected(tree, component, variant.name)
        _fill(collected, tree, variant)
        return collected.payloads()
    except InvalidPackageError as error:
        raise error.at(component=component, variant=variant.name) from None


def _fill(collected: _Collected, tree: SourceTree, variant: Variant) -> None:
    # what the manifest says inline isn't needed as a file again
    inlined = {info.file for info in variant.executor_info.values() if info.file}
    directory = variant.directory
    files = [name for name in tree.walk() if directory is None or directory / name not in inlined]
    model = model_file(variant)
    if model is not None and model not in files:
        raise InvalidPackageError(f"model_file {shown(model)} is not among the variant's files")
    collected.reserve(files)
    for name in files:
        if name == model or name.casefold().endswith(_ENDING):
            collected.add_model(tree.open(name))
    for name in files:
        collected.add_rest(name)


def model_file(variant: Variant) -> str | None:
    """Return the model that ONNX Runtime is told to load, if it is told.

    Raises:
        InvalidPackageError: it isn't told so in the form that the format asks for.
    """
    for info in variant.executor_info.values():
        if info.namespace == "ort" and isinstance(info.value, dict):
            name = info.value.get("model_file")
            if name is not None and not isinstance(name, str):
                raise InvalidPackageError("executor_info.ort.model_file must be text")
            return name
    return None


class _Collected:
    def __init__(self, tree: SourceTree, component: str, variant: str) -> None:
        self._tree = tree
        self._scope = (component, variant)
        self._payloads: dict[str, PlannedPayload] = {}
        self._reserved: set[str] = set()

    def reserve(self, files: list[str]) -> None:
        """Keep these names for the files that have them."""
        self._reserved.update(files)

    def payloads(self) -> list[PlannedPayload]:
        folded: dict[str, str] = {}
        for name in self._payloads:
            twin = folded.setdefault(name.casefold(), name)
            if twin != name:
                raise InvalidPackageError(f"{shown(twin)} and {shown(name)} differ only in case")
        return list(self._payloads.values())

    def add_model(self, file: SourceFile) -> None:
        model = prepare(file, self._tree, (*self._reserved, *self._payloads))
        self._add(file.name, MODEL, model.parts.model_size, model.model_chunks)
        if model.moved_name:
            names.payload(model.moved_name)
            self._add(model.moved_name, INITIALIZERS, model.parts.data_size, model.moved_chunks)
        for kind, referenced in ((INITIALIZERS, model.external), (BLOB, model.blobs)):
            for name in referenced:
                self._add_file(name, kind)

    def add_rest(self, name: str) -> None:
        if name not in self._payloads:
            self._add_file(name, OTHER)

    def _add_file(self, name: str, kind: str) -> None:
        file = self._tree.open(name)
        self._add(name, kind, file.size, file.chunks)

    def _add(self, name: str, kind: str, size: int, chunks: Callable[[], Iterator[bytes]]) -> None:
        known = self._payloads.get(name)
        if known is None:
            self._payloads[name] = PlannedPayload(*self._scope, name, kind, size, chunks)
        elif known.kind != kind or kind == MODEL:
            raise InvalidPackageError(f"{shown(name)} is used as {known.kind} and as {kind}")
