"""A pointer to a package's current version in the making."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Final, Self

from sealcar_server.store.failure import storing

if TYPE_CHECKING:
    from types import TracebackType

    from sealcar_server.store.area import StagingArea
    from sealcar_server.store.directory import Directory

CURRENT: Final = "current"


class StagedPointer:
    """Durable beside its place; discarded on leaving the context unless published."""

    def __init__(self, root: Directory, area: StagingArea, data: bytes) -> None:
        self._root, self._area = root, area
        self._label, self._directory = area.claim()
        try:
            self._directory.write(CURRENT, data)
            self._directory.sync()
        except BaseException:
            self.discard()
            raise

    def publish(self, name: str) -> None:
        """Replace the pointer of a package: a reader sees the old or the new one, whole.

        Raises:
            NotFoundError: there is no such package.
            StorageError: the old one stands.
        """
        with self._root.enter(name) as package:
            with storing("the current version"):
                os.rename(CURRENT, CURRENT, src_dir_fd=self._directory.fd, dst_dir_fd=package.fd)
            package.sync()

    def publish_as(self, name: str, *folders: str) -> None:
        """Replace another file, of the store's root or below these folders.

        Raises:
            NotFoundError: there is no such folder.
            StorageError: the old one stands.
        """
        with self._root.enter(*folders) as folder:
            with storing(name):
                os.rename(CURRENT, name, src_dir_fd=self._directory.fd, dst_dir_fd=folder.fd)
            folder.sync()

    def discard(self) -> None:
        """Remove what is left beside."""
        with self._directory, self._area.enter() as area:
            area.remove(self._label)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.discard()
