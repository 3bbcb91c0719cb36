"""What is taken out of a store: gone at once for readers, then file by file."""

from __future__ import annotations

import os
from contextlib import contextmanager
from typing import TYPE_CHECKING

from sealcar_server.store.failure import storing

if TYPE_CHECKING:
    from collections.abc import Iterator

    from sealcar_server.store.area import StagingArea
    from sealcar_server.store.directory import Directory


@contextmanager
def taking_out(root: Directory, area: StagingArea, *path: str) -> Iterator[None]:
    """Take out a directory: it is gone inside the context, and its files are after it.

    It is moved to where unfinished work lies first, so that who is killed leaves no half of one.
    Files that somebody has open stay readable to him; files that have other names stay.

    Raises:
        NotFoundError: there is none.
        WrongStateError, StorageError: it can't be removed.
    """
    *above, name = path
    label, claimed = area.claim()
    with claimed:
        try:
            with root.enter(*above) as folder:
                with storing(f"removing {'/'.join(path)}"):
                    os.rename(name, label, src_dir_fd=folder.fd, dst_dir_fd=claimed.fd)
                folder.sync()
            yield
        finally:
            with area.enter() as staging:
                staging.remove(label)
