"""What a variant tells ONNX Runtime about files: its model, and where that one's files lie."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from sealcar.errors import InvalidPackageError
from sealcar.names import shown

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator

    from sealcar.modelpackage import Json, Variant

ORT: Final = "ort"
_MODEL: Final = "model_file"
_OPTIONS: Final = "session_options"
# session options that make ONNX Runtime look for files elsewhere than beside the model
_INITIALIZERS: Final = "session.model_external_initializers_file_folder_path"
_CONTEXT: Final = "ep.context_file_path"
_REFERENCE: Final = re.compile(r"(sha256:[0-9a-f]{64})(?:/(.*))?", re.DOTALL)


@dataclass(frozen=True)
class Reference:
    """Where a file or a folder lies.

    Attributes:
        asset: URI of the shared asset; empty: in the variant's own directory.
        path: in there, without `.` and empty parts; empty for the directory itself.
    """

    asset: str
    path: str

    @property
    def folder(self) -> Reference:
        """The folder that the file lies in."""
        return Reference(self.asset, self.path.rpartition("/")[0])


@dataclass(frozen=True)
class Declared:
    """What a variant declares; None where it doesn't.

    Attributes:
        model: the file to load.
        initializers: the folder with the model's external data.
        context: a file; the model's blobs lie beside it.
    """

    model: Reference | None = None
    initializers: Reference | None = None
    context: Reference | None = None

    @property
    def assets(self) -> frozenset[str]:
        """URIs of the assets that these lie in."""
        found = (self.model, self.initializers, self.context)
        return frozenset(item.asset for item in found if item and item.asset)


def declared(variant: Variant, assets: Collection[str]) -> Declared:
    """Return what a variant declares.

    Args:
        variant: of a package.
        assets: URIs of the package's shared assets.

    Raises:
        InvalidPackageError: not in the form that the format asks for, or it leads out of the
            variant and its assets.
    """
    info = variant.executor_info.get(ORT)
    if info is None or not isinstance(info.value, dict):
        return Declared()
    options = info.value.get(_OPTIONS, {})
    if not isinstance(options, dict):
        raise InvalidPackageError(f"executor_info.ort.{_OPTIONS} must be an object")
    found = Declared(
        _reference(info.value, _MODEL, assets),
        # ONNX Runtime takes these for unset if they are empty
        _reference(options, _INITIALIZERS, assets) if options.get(_INITIALIZERS) else None,
        _reference(options, _CONTEXT, assets) if options.get(_CONTEXT) else None,
    )
    for key, file in ((_MODEL, found.model), (_CONTEXT, found.context)):
        if file and not file.path:
            raise InvalidPackageError(f"executor_info.ort: {key} must name a file")
    return found


def named_elsewhere(variant: Variant, assets: Collection[str]) -> list[str]:
    """Return the URIs of assets that other executors than ONNX Runtime are told of.

    What only looks like a reference, and names no asset of the package, is no concern of ours.
    """
    found: dict[str, None] = {}
    for info in variant.executor_info.values():
        if info.namespace == ORT:
            continue
        for text in _texts(info.value):
            match = _REFERENCE.fullmatch(text)
            if match and match[1] in assets:
                found[match[1]] = None
    return list(found)


def _texts(value: Json) -> Iterator[str]:
    pending = [value]
    while pending:
        item = pending.pop()
        if isinstance(item, str):
            yield item
        elif isinstance(item, list):
            pending += item
        elif isinstance(item, dict):
            pending += [*item, *item.values()]


def _reference(body: dict[str, Json], key: str, assets: Collection[str]) -> Reference | None:
    text = body.get(key)
    if text is None:
        return None
    if not isinstance(text, str):
        raise InvalidPackageError(f"executor_info.ort: {key} must be text")
    match = _REFERENCE.fullmatch(text)
    if match and match[1] not in assets:
        raise InvalidPackageError(
            f"executor_info.ort: {key} names {shown(match[1])}, which is no asset of the package"
        )
    uri, path = (match[1], match[2] or "") if match else ("", text)
    parts = path.split("/")
    if not text or path.startswith("/") or ".." in parts or "\0" in path:
        where = "the asset" if uri else "the variant's directory"
        raise InvalidPackageError(f"executor_info.ort: {key} {shown(text)} must lie in {where}")
    return Reference(uri, "/".join(part for part in parts if part not in ("", ".")))
