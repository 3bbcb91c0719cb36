"""Copies the directory of a variant, which, other than an asset, may have links in it."""

from __future__ import annotations

import os
from contextlib import suppress

from sealcar.modelpackage import writing
from sealcar.modelpackage.errors import ConfinementError
from sealcar.modelpackage.files import folder, open_regular
from sealcar.modelpackage.paths import is_within
from sealcar.modelpackage.trees import Kind, Node, walk


def copy_into(source: str, target: int, place: str, *, within: str) -> None:
    """Copy a file, or a directory and what is in it, unless it is there already.

    A link that stays in the directory is copied as a link. Of one that leads to a file elsewhere in
    the package, the file is copied.

    Args:
        source: real path.
        target: descriptor of the new package's directory.
        place: where in it.
        within: what links may not lead out of.

    Raises:
        ConfinementError: a link leads to a directory elsewhere, or out.
        SchemaError: there is something else than files, directories and links in it.
    """
    above, _, name = place.rpartition("/")
    writing.make_folders(above, target)
    with folder(above, target) as directory, suppress(FileExistsError):
        if not os.path.isdir(source):  # noqa: PTH112  (paths are text here)
            _copy_path(source, directory, name)
            return
        if name not in ("", "."):
            with suppress(FileExistsError):
                os.mkdir(name, dir_fd=directory)
        with folder(source) as origin, folder(name, directory) as copy:
            for node in walk(origin):
                _copy_node(node, source, copy, within)


def _copy_node(node: Node, source: str, copy: int, within: str) -> None:
    with folder(node.path.rpartition("/")[0], copy) as above, suppress(FileExistsError):
        if node.kind is Kind.FOLDER:
            os.mkdir(node.name, dir_fd=above)
        elif node.kind is Kind.LINK:
            _copy_link(node, source, above, within)
        else:
            node.check_plain()
            writing.copy_file(node, above, node.name)


def _copy_link(node: Node, source: str, above: int, within: str) -> None:
    text = os.readlink(node.name, dir_fd=node.above)
    real = os.path.realpath(f"{source}/{node.path}")
    if is_within(real, source) and not text.startswith("/"):
        os.symlink(text, node.name, dir_fd=above)
    elif is_within(real, within) and os.path.isfile(real):  # noqa: PTH113  (paths are text here)
        _copy_path(real, above, node.name)
    else:
        message = f"a link that leads to {real!a} can't be copied with the variant"
        raise ConfinementError(message, where=f"{source}/{node.path}")


def _copy_path(source: str, above: int, name: str) -> None:
    origin = open_regular(source)
    try:
        writing.copy_descriptor(origin, above, name)
    finally:
        os.close(origin)
