"""The small files of a store's own, beside its packages: read, and replaced by one rename."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Final

from sealcar.closing import Closing
from sealcar.errors import NotFoundError
from sealcar_server.store.area import StagingArea, read_only
from sealcar_server.store.failure import storing
from sealcar_server.store.places import (
    CURRENT,
    EQUAL_ASSETS,
    IDENTITY,
    store_package,
    store_version,
)
from sealcar_server.store.staged_file import StagedFile
from sealcar_server.store.usage import FileUse, use_of

if TYPE_CHECKING:
    from sealcar_server.store.directory import Directory
    from sealcar_server.store.identity import StoreIdentity

TOMBSTONE: Final = "tombstone"
MAX_SIZE: Final = 64 * 1024


class OwnFiles(Closing):
    """What an open store has of them; safe to share between threads."""

    def __init__(
        self, root: Directory, identity: StoreIdentity, *, read_only: bool = False
    ) -> None:
        self._root = root
        self.identity = identity
        self._area = StagingArea(root, read_only=read_only)

    @property
    def read_only(self) -> bool:
        """Whether nothing in it may be changed: then whatever would raises WrongStateError."""
        return self._area.read_only

    def read_tombstone(self, name: str, version: str) -> bytes | None:
        """Return the tombstone of a version as it was written; None if there is none."""
        try:
            with self._root.enter(store_package(name), store_version(version)) as folder:
                return folder.read(TOMBSTONE, MAX_SIZE)
        except NotFoundError:
            return None

    def write_tombstone(self, name: str, version: str, data: bytes) -> None:
        """Mark a version as shredded, durably.

        Raises:
            NotFoundError: there is no such version.
            ExhaustedError, StorageError: it can't be written.
        """
        self._replace(data, store_package(name), store_version(version), TOMBSTONE)

    def read_asset_entry(self, label: str) -> bytes | None:
        """Return what the index of equal assets has under a label; None if it has nothing."""
        try:
            with self._root.enter(EQUAL_ASSETS) as index:
                return index.read(label, MAX_SIZE)
        except NotFoundError:
            return None

    def write_asset_entry(self, label: str, data: bytes) -> None:
        """Write into the index of equal assets, in place of what is there.

        Raises:
            ExhaustedError, StorageError: it can't be written.
        """
        with StagedFile(self._root, self._area, data, EQUAL_ASSETS, label) as staged:
            self._root.ensure(EQUAL_ASSETS).close()
            staged.publish()

    def asset_entries(self) -> list[str]:
        """Return the labels of the index of equal assets, sorted."""
        try:
            with self._root.enter(EQUAL_ASSETS) as index:
                return index.names()
        except NotFoundError:
            return []

    def use_of_asset_entry(self, label: str) -> FileUse:
        """Return which file an entry is; NotFoundError if there is none."""
        with self._root.enter(EQUAL_ASSETS) as index, storing("an entry of the index of assets"):
            return use_of(os.stat(label, dir_fd=index.fd, follow_symlinks=False))

    def remove_asset_entry(self, label: str) -> None:
        """Remove an entry of the index; fine if there is none.

        Raises:
            WrongStateError, StorageError: it can't be removed.
        """
        if self.read_only:
            raise read_only()
        with self._root.enter(EQUAL_ASSETS) as index:
            index.remove(label)

    def replace_identity(self, identity: StoreIdentity) -> None:
        """Write `store.json` anew: a reader sees the old or the new one, whole.

        Raises:
            ExhaustedError, StorageError: the old one stands.
        """
        self._replace(identity.serialise(), IDENTITY)
        self.identity = identity

    def read_current(self, name: str) -> bytes | None:
        """Return the pointer to the current version as it was written; None if there is none."""
        try:
            return self._root.read_below(store_package(name), CURRENT, limit=MAX_SIZE)
        except NotFoundError:
            return None

    def stage_current(self, name: str, data: bytes) -> StagedFile:
        """Write a package's pointer beside, durably, so that publishing it needs no more room.

        Raises:
            ExhaustedError, StorageError: it can't be written.
        """
        return StagedFile(self._root, self._area, data, store_package(name), CURRENT)

    def close(self) -> None:
        """Close the store; twice is fine."""
        self._root.close()

    def _replace(self, data: bytes, *path: str) -> None:
        with StagedFile(self._root, self._area, data, *path) as staged:
            staged.publish()
