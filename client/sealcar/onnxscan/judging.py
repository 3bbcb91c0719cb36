"""Whether one model may be stored: what it refers to must be stored with it."""

from __future__ import annotations

import posixpath
from typing import TYPE_CHECKING

from sealcar.errors import InvalidPackageError
from sealcar.names import shown
from sealcar.onnxscan import rules
from sealcar.onnxscan.scanner import scan

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from typing_extensions import Buffer

    from sealcar.onnxscan.jobs import Folder, Job

_DATA = ("initializers", "other")
_BLOB = ("blob",)


def judge(model: Buffer, job: Job) -> None:
    """Check a model against the files that are stored with it.

    Raises:
        InvalidPackageError: naming tensor or node, and the rule.
    """
    found = scan(model)
    rules.external_files(found, lambda location: _data(job.data, location))
    blobs = set(rules.blob_files(found, job.name))
    for node in found.ep_contexts:
        name = (node.cache_context or b"").decode(errors="surrogateescape")
        if name in blobs and not list(_candidates(job.blobs, name, _BLOB)):
            raise InvalidPackageError(
                f"{rules.node_label(node)}: blob {shown(name)} is not stored with the model"
            )


def _data(folders: Iterable[Folder], location: str) -> list[tuple[str, int]]:
    # every file that a reader could take for it has to do
    found = list(_candidates(folders, location, _DATA))
    if not found:
        raise InvalidPackageError(
            f"location {shown(location)} leads to no file that is stored with the model"
        )
    return found


def _candidates(
    folders: Iterable[Folder], location: str, kinds: tuple[str, ...]
) -> Iterator[tuple[str, int]]:
    for folder in folders:
        name = posixpath.join(folder.prefix, location)
        kind, size = folder.files.get(name, ("", 0))
        if kind in kinds:
            yield name, size
        elif kind:
            raise InvalidPackageError(f"{shown(name)} is of kind {kind}, not {' or '.join(kinds)}")
