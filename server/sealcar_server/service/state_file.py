"""A small file of the daemon's state directory, replaced whole and durably."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from sealcar.errors import NotFoundError, StorageError
from sealcar_server.store.directory import Directory
from sealcar_server.store.failure import storing

if TYPE_CHECKING:
    from pathlib import Path


def read(state: Path, name: str, limit: int) -> bytes | None:
    """Return the file's bytes; None if there is none.

    Raises:
        StorageError: it can't be read.
        NotAuthenticError: it is longer than `limit`, or no regular file.
    """
    try:
        with Directory.open(state) as directory:
            return directory.read(name, limit)
    except NotFoundError:
        return None


def replace(state: Path, name: str, data: bytes) -> None:
    """Write the file anew: the old one stands until the new one is durable.

    Raises:
        ExhaustedError, StorageError: it can't be written.
    """
    new = f"{name}.new"
    try:
        opened = Directory.open(state, "the daemon's state directory")
    except NotFoundError as error:
        # whoever asked for this would take what he asked about to be missing
        raise StorageError(error.message) from error
    with opened as directory:
        directory.remove(new)
        directory.write(new, data)
        with storing(name):
            os.rename(new, name, src_dir_fd=directory.fd, dst_dir_fd=directory.fd)
        directory.sync()
