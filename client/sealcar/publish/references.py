"""What a model refers to, of a publisher's tree: which files beside it belong to it."""

from __future__ import annotations

import posixpath
from typing import TYPE_CHECKING

from sealcar.onnxscan import rules

if TYPE_CHECKING:
    from sealcar.onnxscan import ModelScan
    from sealcar.publish.sources import SourceTree


def external_files(scan: ModelScan, model: str, tree: SourceTree) -> list[str]:
    """Return the files with the model's external data, checked reference by reference.

    Args:
        scan: of the model.
        model: its name in the tree.
        tree: where it lies.

    Raises:
        InvalidPackageError: naming tensor and rule.
    """
    folder = posixpath.dirname(model)

    def find(location: str) -> list[tuple[str, int]]:
        name = posixpath.join(folder, location)
        return [(name, tree.open(name).size)]

    return rules.external_files(scan, find)


def blob_files(scan: ModelScan, model: str) -> list[str]:
    """Return the names of blobs beside a compiled model.

    Raises:
        InvalidPackageError: naming node and rule.
    """
    return rules.blob_files(scan, model)
