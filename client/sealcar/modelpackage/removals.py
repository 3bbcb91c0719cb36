"""Deletes shared assets once, and only if, a manifest is in place that is without them.

What is found at the default place is an asset of the package whether the manifest names it or not,
so a removal can't be part of the manifest. A note says which assets go, and with which manifest.
"""

from __future__ import annotations

import hashlib
import json
import os
from contextlib import suppress
from typing import TYPE_CHECKING, Final

from sealcar.modelpackage import writing
from sealcar.modelpackage.assets import DIRECTORY, FOLDER
from sealcar.modelpackage.errors import PackageError
from sealcar.modelpackage.files import folder, read_document
from sealcar.modelpackage.json_text import parse
from sealcar.modelpackage.reader import read_manifest

if TYPE_CHECKING:
    from collections.abc import Iterable

    from sealcar.modelpackage.package import Package

_NOTE: Final = "removals"
_LONGEST: Final = 16 << 20


def note(root: int, names: Iterable[str], manifest: bytes) -> None:
    """Note the directories of assets that go once a manifest is in place.

    Raises:
        OSError: it can't be written.
    """
    text = {"assets": sorted(names), "manifest": hashlib.sha256(manifest).hexdigest()}
    with folder(DIRECTORY, root) as above:
        name = f"{_NOTE}{writing.STAGED}{writing.token()}"
        writing.replace(above, name, json.dumps(text).encode())


def finish(root: int, package: Package) -> None:
    """Delete the assets of notes that fit the manifest in place, then all notes.

    Raises:
        OSError: they can't be deleted.
    """
    with suppress(FileNotFoundError), folder(DIRECTORY, root) as above:
        notes = [
            item.name
            for item in package.root.joinpath(DIRECTORY).iterdir()
            if item.name.startswith(_NOTE + writing.STAGED)
        ]
        if not notes:
            return
        digest = hashlib.sha256(read_manifest(package.root, package.rules)).hexdigest()
        for name in notes:
            for asset in _noted(f"{package.root}/{DIRECTORY}/{name}", digest):
                remove(above, asset)
            writing.remove_tree(above, name)


def _noted(path: str, digest: str) -> list[str]:
    # a note that can't be read was never finished
    with suppress(PackageError):
        text = parse(read_document(path, _LONGEST), path)
        if isinstance(text, dict):
            assets = text.get("assets")
            if text.get("manifest") == digest and isinstance(assets, list):
                return [name for name in map(str, assets) if FOLDER.fullmatch(name)]
    return []


def remove(above: int, name: str) -> None:
    """Delete an asset's directory at once and as a whole; of a link, the link.

    Raises:
        OSError: it can't be deleted.
    """
    gone = f"{name}{writing.STAGED}{writing.token()}"
    with suppress(FileNotFoundError):
        os.rename(name, gone, src_dir_fd=above, dst_dir_fd=above)
        os.fsync(above)
        writing.remove_tree(above, gone)
