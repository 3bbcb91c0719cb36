"""Saves a whole package, with all its files, to another directory: complete or not at all."""

from __future__ import annotations

import fcntl
import os
import shutil
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING

from sealcar.modelpackage import writing
from sealcar.modelpackage.content import Content
from sealcar.modelpackage.errors import FileAccessError, StateError
from sealcar.modelpackage.files import folder, open_folder
from sealcar.modelpackage.reader import open_package

if TYPE_CHECKING:
    from collections.abc import Iterator

    from sealcar.modelpackage.package import Package


def save_as(package: Package, destination: str | os.PathLike[str]) -> Path:
    """Save a package to a directory that is empty or doesn't exist; return its real path.

    Raises:
        StateError: there is something already, or a variant's directory holds the destination.
        AssetMismatchError: a shared asset isn't what its URI says.
        MissingError: a shared asset is missing.
        ConfinementError: a link in a variant's directory leads out of the package.
        FileAccessError: it can't be written; nothing is left of it.
    """
    text = os.fsdecode(destination)
    if not text:
        raise FileAccessError("a path must not be empty")
    with writing.writes(text):
        target = Path(os.path.realpath(text))
        _check(package, target)
        target.parent.mkdir(parents=True, exist_ok=True)
        with folder(str(target.parent)) as above:
            sweep(above, target)
            with _staging(above, target.name) as (name, directory):
                Content(package).write(directory)
                os.fsync(directory)
                open_package(target.parent / name, package.rules).close()
                os.rename(name, target.name, src_dir_fd=above, dst_dir_fd=above)
            os.fsync(above)
    return target


def _check(package: Package, target: Path) -> None:
    try:
        if any(target.iterdir()):
            raise StateError("the destination is not empty", where=str(target))
    except FileNotFoundError:
        pass
    except NotADirectoryError:
        raise StateError("the destination is a file", where=str(target)) from None
    for component in package.components.values():
        for variant in component.variants.values():
            if variant.directory and target.is_relative_to(variant.directory):
                raise StateError("the destination is in a variant's directory", where=str(target))


@contextmanager
def _staging(above: int, name: str) -> Iterator[tuple[str, int]]:
    temporary = f"{name}{writing.STAGED}{writing.token()}"
    os.mkdir(temporary, dir_fd=above)
    directory = open_folder(temporary, above)
    # held as long as this process lives: who can take it knows that the directory is left over
    fcntl.flock(directory, fcntl.LOCK_EX)
    try:
        yield temporary, directory
    except BaseException:
        shutil.rmtree(temporary, ignore_errors=True, dir_fd=above)
        raise
    finally:
        os.close(directory)


def sweep(above: int, target: Path) -> None:
    """Delete what saves to a directory left beside it when their processes died.

    Args:
        above: the directory that holds it.
        target: its path.
    """
    for item in target.parent.iterdir():
        if writing.final_name(item.name) != target.name or item.is_symlink() or not item.is_dir():
            continue
        with suppress(OSError), folder(item.name, above) as directory:
            fcntl.flock(directory, fcntl.LOCK_EX | fcntl.LOCK_NB)
            writing.remove_tree(above, item.name)
