"""A small file of the store in the making: what is there stands until one rename replaces it."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Final

from sealcar.closing import Closing
from sealcar_server.store.failure import storing

if TYPE_CHECKING:
    from sealcar_server.store.area import StagingArea
    from sealcar_server.store.directory import Directory

_NAME: Final = "file"


class StagedFile(Closing):
    """Durable beside its place; thrown away on leaving the context unless published.

    Args:
        root: of the store.
        area: where it is staged.
        data: its bytes.
        path: its place, as steps from the root.

    Raises:
        WrongStateError: the store is read-only.
        ExhaustedError, StorageError: it can't be written.
    """

    def __init__(self, root: Directory, area: StagingArea, data: bytes, *path: str) -> None:
        self._root, self._area, self._path = root, area, path
        self._label, self._directory = area.claim()
        try:
            self._directory.write(_NAME, data)
            self._directory.sync()
        except BaseException:
            self.close()
            raise

    def publish(self) -> None:
        """Put it into its place: a reader sees the old file or the new one, whole.

        Raises:
            NotFoundError: there is no folder for it.
            StorageError: the old one stands.
        """
        *folders, name = self._path
        with self._root.enter(*folders) as folder:
            with storing(name):
                os.rename(_NAME, name, src_dir_fd=self._directory.fd, dst_dir_fd=folder.fd)
            folder.sync()

    def close(self) -> None:
        """Remove what is left beside; twice is fine."""
        with self._directory, self._area.enter() as area:
            area.remove(self._label)
