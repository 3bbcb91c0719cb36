"""A store in a bucket: see `keys` for what lies where.

Several daemons may have the same one open. All that matters is in the bucket, each change of it is
one conditional write, and what another daemon changed is noticed within `refresh` seconds.
"""

from __future__ import annotations

import os
from contextlib import suppress
from typing import TYPE_CHECKING, Final

from sealcar.closing import Closing
from sealcar.errors import (
    AlreadyExistsError,
    ConflictError,
    NotFoundError,
    UnknownFormatError,
)
from sealcar_server.store.area import LOCK, STAGING, StagingArea
from sealcar_server.store.bucket.files import WholeFiles
from sealcar_server.store.bucket.generation import BucketGeneration, Parts
from sealcar_server.store.bucket.keys import IDENTITY
from sealcar_server.store.bucket.listings import Listings
from sealcar_server.store.bucket.numbers import Numbers
from sealcar_server.store.bucket.own_objects import OwnObjects, PendingObject, version_of
from sealcar_server.store.bucket.payloads import Payloads
from sealcar_server.store.bucket.publishing import Publishing
from sealcar_server.store.bucket.removing import Removing
from sealcar_server.store.bucket.small import SmallObjects
from sealcar_server.store.bucket.staging import BucketStaging
from sealcar_server.store.directory import Directory
from sealcar_server.store.identity import MAX_IDENTITY, StoreIdentity
from sealcar_server.store.places import store_package
from sealcar_server.store.staging import LocalStaging

if TYPE_CHECKING:
    from contextlib import AbstractContextManager
    from pathlib import Path

    from sealcar_server.store.bucket.files import Files
    from sealcar_server.store.bucket.objects import Objects
    from sealcar_server.store.usage import FileUse

ABANDONED: Final = 86_400.0  # seconds


class BucketStore(Closing):
    """As `interface.Store`.

    Args:
        root: directory of this machine, for what is under way; belongs to this object.
        objects: of the bucket.
        identity: of the store.
        refresh: seconds after which what others changed is noticed.
        read_only: nothing in the bucket is changed.
        abandoned: seconds after which what nothing refers to was left by somebody who died.
    """

    def __init__(
        self,
        root: Directory,
        objects: Objects,
        identity: StoreIdentity,
        *,
        refresh: float,
        read_only: bool,
        abandoned: float,
    ) -> None:
        self._root, self._objects, self.refresh = root, objects, refresh
        self._area = StagingArea(root)
        small, self._listings = SmallObjects(objects, refresh), Listings(objects, refresh)
        payloads = Payloads(objects, small, self._listings)
        files: Files = WholeFiles(objects, self._area)
        self._parts = Parts(objects, small, payloads, files, self._area)
        self._numbers = Numbers(small, self._listings)
        self._removing = Removing(self._parts, self._listings, self._numbers, abandoned=abandoned)
        self._own = OwnObjects(self._parts, identity, read_only=read_only)

    @staticmethod
    def create(objects: Objects, identity: StoreIdentity) -> None:
        """Found a store in a bucket.

        Raises:
            AlreadyExistsError: there is a store already.
            ExhaustedError, StorageError: the bucket can't be written.
        """
        try:
            objects.create(IDENTITY, identity.serialise())
        except ConflictError:
            raise AlreadyExistsError(f"{objects.place} holds a store already") from None

    @classmethod
    def open(
        cls,
        path: Path,
        objects: Objects,
        *,
        refresh: float,
        read_only: bool = False,
        abandoned: float = ABANDONED,
    ) -> BucketStore:
        """Open a store, and clean up what dead processes left on this machine.

        Args:
            path: directory of this machine, which is there.
            objects: of the bucket; the store closes them.
            refresh: seconds after which what others changed is noticed.
            read_only: nothing in the bucket is changed.
            abandoned: seconds after which what nothing refers to was left by somebody who died.

        Raises:
            NotFoundError: there is no such directory.
            UnknownFormatError: the bucket holds no store, or one of a newer release.
            NotAuthenticError: its `store.json` is damaged.
            StorageError: the bucket, or the directory, can't be read.
        """
        try:
            identity = StoreIdentity.parse(objects.read(IDENTITY, MAX_IDENTITY)[0])
        except NotFoundError:
            raise UnknownFormatError(
                f"{objects.place} holds no {IDENTITY}: make a store with `sealcar init --bucket`"
            ) from None
        root = Directory.open(path)
        try:
            root.ensure(STAGING).close()
            with suppress(AlreadyExistsError):
                os.close(root.create_file(LOCK))
            store = cls(
                root,
                objects,
                identity,
                refresh=refresh,
                read_only=read_only,
                abandoned=abandoned,
            )
        except BaseException:
            root.close()
            raise
        store._area.clean()
        return store

    @property
    def read_only(self) -> bool:
        """Whether nothing in the bucket may be changed."""
        return self._own.read_only

    @property
    def identity(self) -> StoreIdentity:
        """Which store this is, and its wrapped key."""
        return self._own.identity

    def names(self) -> list[str]:
        """Return the names of packages, sorted."""
        return sorted(self._listings.everything())

    def versions(self, name: str) -> list[str]:
        """Return the versions that have a generation, sorted."""
        found = self._listings.package(store_package(name))
        return sorted(version for version, one in found.items() if one.numbers)

    def numbers(self, name: str, version: str) -> list[int]:
        """Return the generations' numbers, newest first."""
        return self._numbers.all(version_of(name, version))

    def newest(self, name: str, version: str) -> int:
        """Return the number of the newest generation; 0 if there is none."""
        return self._numbers.newest(version_of(name, version))

    def is_complete(self, name: str, version: str, number: int) -> bool:
        """Tell whether there is a generation of that number."""
        return self._numbers.has(version_of(name, version), number)

    def generation(self, name: str, version: str, number: int) -> BucketGeneration:
        """Return a generation; NotFoundError if there is none of that number."""
        if not self.is_complete(name, version, number):
            raise NotFoundError(f"no generation {number}")
        return self.place(name, version, number)

    def place(self, name: str, version: str, number: int) -> BucketGeneration:
        """Return where a generation belongs, whether or not it is there."""
        of = version_of(name, version)
        return BucketGeneration(self._parts, of.name, of.version, number)

    def stage(self, name: str, version: str) -> BucketStaging:
        """Begin a new generation."""
        self._own.refuse_read_only()
        of = version_of(name, version)
        local = LocalStaging(self._root, self._area, of.name, of.version)
        return BucketStaging(local, Publishing(self._parts, self._numbers, of))

    def remove(self, name: str, version: str, number: int) -> None:
        """Remove a generation."""
        with self.taking_out(name, version, number):
            pass

    def taking_out(self, name: str, version: str, number: int = 0) -> AbstractContextManager[None]:
        """Take out a generation or the whole version: gone inside, its objects at the end."""
        self._own.refuse_read_only()
        of = version_of(name, version)
        if number:
            return self._removing.generation(of, number)
        return self._removing.version(of)

    def usage(self, name: str, version: str, number: int) -> list[FileUse]:
        """Return the objects of a generation."""
        return self._removing.usage(version_of(name, version), number)

    def clean(self, *, only_look: bool = False) -> list[FileUse]:
        """Remove what writers left that died long ago, here and in the bucket; return it."""
        if self.read_only:
            return []
        here = self._area.clean(only_look=only_look)
        return here + self._removing.clean(only_look=only_look)

    def read_tombstone(self, name: str, version: str) -> bytes | None:
        """Return the tombstone of a version as it was written; None if there is none."""
        return self._own.read_tombstone(version_of(name, version))

    def write_tombstone(self, name: str, version: str, data: bytes) -> None:
        """Mark a version as shredded."""
        self._own.write_tombstone(version_of(name, version), data)

    def read_asset_entry(self, label: str) -> bytes | None:
        """Return what the index of equal assets has under a label; None if it has nothing."""
        return self._own.read_asset_entry(label)

    def write_asset_entry(self, label: str, data: bytes) -> None:
        """Write into the index of equal assets, in place of what is there."""
        self._own.write_asset_entry(label, data)

    def asset_entries(self) -> list[str]:
        """Return the labels of the index of equal assets, sorted."""
        return self._own.asset_entries()

    def use_of_asset_entry(self, label: str) -> FileUse:
        """Return which object an entry is; NotFoundError if there is none."""
        return self._own.use_of_asset_entry(label)

    def remove_asset_entry(self, label: str) -> None:
        """Remove an entry of the index; fine if there is none."""
        self._own.remove_asset_entry(label)

    def replace_identity(self, identity: StoreIdentity) -> None:
        """Write `store.json` anew; ConflictError if another daemon did meanwhile."""
        self._own.replace_identity(identity)

    def read_current(self, name: str) -> bytes | None:
        """Return the pointer to the current version as it was written; None if there is none."""
        return self._own.read_current(name)

    def stage_current(self, name: str, data: bytes) -> PendingObject:
        """Have a package's pointer ready, to take the place of the one that was last read."""
        return self._own.stage_current(name, data)

    def close(self) -> None:
        """Close the store; twice is fine."""
        self._root.close()
        self._objects.close()
