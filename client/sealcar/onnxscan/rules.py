"""What a model may refer to: files that belong to it, in the form that exporters write.

Names, offsets and lengths come out of the model and are hostile. Models were made that leak any
file of whoever loads them, or its memory, through each of them; so a reference is either exactly
what exporters write, or refused. Publisher and daemon hold models to the same rules.
"""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING, Final, TypeAlias

from sealcar import names
from sealcar.errors import InvalidNameError, InvalidPackageError
from sealcar.names import shown

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from sealcar.onnxscan.values import EpContextNode, External, ModelScan, Tensor

# integrity comes from sealing, so this is ignored; every other key is unknown to readers or an
# attack on them
_IGNORED_KEYS: Final = frozenset({"checksum"})
# a marker that runtimes understand as "offset is an address in memory"
ADDRESS_MARKER: Final = "_MEM_ADDR_"
# notes in each of its nodes what the source was called, and never reads it
_NOTES_ITS_SOURCE: Final = "OpenVINOExecutionProvider"

# Where a canonical location leads: the name and size of each file that a reader could take for it.
# Raises InvalidPackageError where it leads nowhere.
Finder: TypeAlias = "Callable[[str], Iterable[tuple[str, int]]]"


def external_files(scan: ModelScan, find: Finder) -> list[str]:
    """Return the files with a model's external data, checked reference by reference.

    Raises:
        InvalidPackageError: naming tensor and rule.
    """
    used = defaultdict(list)
    for tensor in scan.tensors:
        if tensor.external is None:
            continue
        what = f"tensor {shown(tensor.name)} ({tensor.path})"
        try:
            for name, start, size in _references(tensor, tensor.external, find):
                used[name].append((start, start + size, what))
        except (InvalidNameError, InvalidPackageError) as error:
            raise InvalidPackageError(f"{what}: {error.message}") from error
    for name, ranges in used.items():
        _check_overlaps(name, ranges)
    return list(used)


def blob_files(scan: ModelScan, model: str) -> list[str]:
    """Return the names of blobs beside a compiled model.

    Args:
        scan: of the model.
        model: its name, relative to the directory in which its blobs would lie.

    Raises:
        InvalidPackageError: naming node and rule.
    """
    found: dict[str, None] = {}
    for node in scan.ep_contexts:
        try:
            name = _blob_name(node)
        except (InvalidNameError, InvalidPackageError) as error:
            raise InvalidPackageError(f"{node_label(node)}: {error.message}") from error
        if name:
            found[name] = None
    if scan.ep_contexts and not any(node.main_context for node in scan.ep_contexts):
        raise InvalidPackageError(
            f"{shown(model)}: EPContext nodes with main_context 0, but none with 1"
        )
    if found and "/" in model:
        raise InvalidPackageError(
            f"{shown(model)}: a compiled model with blobs beside it must lie in the variant's "
            "directory itself"
        )
    return list(found)


def node_label(node: EpContextNode) -> str:
    """Return how messages call a node."""
    return f"EPContext node {shown(node.name)} ({node.path})"


def _references(tensor: Tensor, external: External, find: Finder) -> Iterator[tuple[str, int, int]]:
    """Yield file, offset and length of a tensor's data."""
    if tensor.sparse:
        raise InvalidPackageError("sparse tensors can't have external data: readers take any file")
    if not tensor.initializer:
        raise InvalidPackageError("only initializers can have external data")
    unknown = sorted(external.others.keys() - _IGNORED_KEYS)
    if unknown:
        raise InvalidPackageError(f"unknown external_data key {shown(unknown[0])}")
    if ADDRESS_MARKER in external.location:
        raise InvalidPackageError(f"location {shown(external.location)} is a memory address")
    expected = tensor.byte_size
    if expected is None:
        raise InvalidPackageError(f"external data of type {tensor.data_type} has no fixed size")
    for name, size in find(names.payload(external.location)):
        yield name, external.offset, _length(external, expected, name, size)


def _length(external: External, expected: int, name: str, size: int) -> int:
    """Return how long the data is, if it lies inside the file and fits its shape."""
    length = size - external.offset if external.length is None else external.length
    if length != expected:
        raise InvalidPackageError(f"external data has {length} bytes, its shape needs {expected}")
    if external.offset + length > size:
        raise InvalidPackageError(
            f"external data at {external.offset} with {length} bytes lies beyond the {size} bytes "
            f"of {shown(name)}"
        )
    return length


def _check_overlaps(name: str, ranges: Iterable[tuple[int, int, str]]) -> None:
    """Two tensors may share their data, but not a part of it: that is no export, it's a trick."""
    before = (0, 0, "")
    for current in sorted(ranges):
        start, end, what = current
        shared = (start, end) == before[:2]
        if start < before[1] and not shared and end > start:
            raise InvalidPackageError(f"{what}: its data overlaps that of {before[2]} in {name!a}")
        before = max(before, current, key=lambda item: item[1])


def _blob_name(node: EpContextNode) -> str:
    if node.model_filename and node.source != _NOTES_ITS_SOURCE:
        raise InvalidPackageError("onnx_model_filename names another file, which isn't supported")
    if node.embed_mode is None and node.cache_span is not None:
        raise InvalidPackageError("embed_mode is missing")
    if node.embed_mode is not False:
        return ""
    if not node.cache_context:
        if node.main_context:
            raise InvalidPackageError("ep_cache_context is missing or empty")
        return ""
    return names.blob(node.cache_context.decode("utf-8", "surrogateescape"))
