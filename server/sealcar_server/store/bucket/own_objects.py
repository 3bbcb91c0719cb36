"""The small objects of a store's own, beside its packages."""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING

from sealcar.closing import Closing
from sealcar.errors import ConflictError, NotAuthenticError
from sealcar_server.store.area import read_only
from sealcar_server.store.bucket import keys
from sealcar_server.store.bucket.keys import Version
from sealcar_server.store.identity import MAX_IDENTITY, StoreIdentity
from sealcar_server.store.own_files import MAX_SIZE
from sealcar_server.store.places import EQUAL_ASSETS, store_package, store_version
from sealcar_server.store.usage import FileUse

if TYPE_CHECKING:
    from sealcar_server.store.bucket.generation import Parts


class PendingObject(Closing):
    """As `interface.Pending`: it replaces what was last read there, and nothing else."""

    def __init__(self, parts: Parts, key: str, data: bytes) -> None:
        self._parts, self._key, self._data = parts, key, data
        self._before = parts.small.etag(key)

    def publish(self) -> None:
        """Put it into its place; as `interface.Pending`."""
        objects, small = self._parts.objects, self._parts.small
        try:
            if self._before:
                etag = objects.replace(self._key, self._data, self._before)
            else:
                etag = objects.create(self._key, self._data)
        except ConflictError:
            small.forget(self._key)
            raise
        small.put(self._key, self._data, etag)

    def close(self) -> None:
        """Nothing was written beside; twice is fine."""


class OwnObjects(Closing):
    """As `own_files.OwnFiles`; safe to share between threads.

    Args:
        parts: of the store.
        identity: what `store.json` said when the store was opened.
        read_only: nothing is changed.
    """

    def __init__(self, parts: Parts, identity: StoreIdentity, *, read_only: bool) -> None:
        self._parts, self._identity, self._read_only = parts, identity, read_only
        self._serialised = identity.serialise()

    @property
    def read_only(self) -> bool:
        """Whether nothing in the bucket may be changed: then whatever would fails."""
        return self._read_only

    def _refuse_read_only(self) -> None:
        if self._read_only:
            raise read_only()

    @property
    def identity(self) -> StoreIdentity:
        """Which store this is; another daemon may have moved its key to another version since."""
        data = self._parts.small.get(keys.IDENTITY, MAX_IDENTITY)
        if data is not None and data != self._serialised:
            found = StoreIdentity.parse(data)
            if found.store_id != self._identity.store_id:
                raise NotAuthenticError(f"{keys.IDENTITY} is another store's now")
            self._identity, self._serialised = found, data
        return self._identity

    def replace_identity(self, identity: StoreIdentity) -> None:
        """Write `store.json` anew; ConflictError if another daemon did meanwhile."""
        self._refuse_read_only()
        PendingObject(self._parts, keys.IDENTITY, identity.serialise()).publish()

    def read_tombstone(self, name: str, version: str) -> bytes | None:
        """Return the tombstone of a version as it was written; None if there is none."""
        return self._parts.small.get(version_of(name, version).tombstone, MAX_SIZE)

    def write_tombstone(self, name: str, version: str, data: bytes) -> None:
        """Mark a version as shredded."""
        self._write(version_of(name, version).tombstone, data)

    def read_departure(self, name: str, version: str) -> bytes | None:
        """Return what a daemon noted of a version that it removed; None if there is nothing."""
        return self._parts.small.now(version_of(name, version).departure, MAX_SIZE).data

    def write_departure(self, name: str, version: str, data: bytes) -> None:
        """Write that, in place of what was last read; ConflictError if another daemon did."""
        self._refuse_read_only()
        PendingObject(self._parts, version_of(name, version).departure, data).publish()

    def read_asset_entry(self, label: str) -> bytes | None:
        """Return what the index of equal assets has under a label; None if it has nothing."""
        return self._parts.small.get(keys.asset_entry(label), MAX_SIZE)

    def write_asset_entry(self, label: str, data: bytes) -> None:
        """Write into the index of equal assets, in place of what is there."""
        self._write(keys.asset_entry(label), data)

    def asset_entries(self) -> list[str]:
        """Return the labels of the index of equal assets, sorted."""
        found = self._parts.objects.listed(EQUAL_ASSETS)
        return sorted(one.key.rpartition("/")[2] for one in found)

    def use_of_asset_entry(self, label: str) -> FileUse:
        """Return which object an entry is; NotFoundError if there is none."""
        key = keys.asset_entry(label)
        return use_of(key, self._parts.objects.size(key)[0])

    def remove_asset_entry(self, label: str) -> None:
        """Remove an entry of the index; fine if there is none."""
        self._refuse_read_only()
        key = keys.asset_entry(label)
        self._parts.objects.remove([key])
        self._parts.small.put(key, None)

    def read_current(self, name: str) -> bytes | None:
        """Return the pointer to the current version as it was written; None if there is none."""
        return self._parts.small.get(keys.current(store_package(name)), MAX_SIZE)

    def stage_current(self, name: str, data: bytes) -> PendingObject:
        """Have a package's pointer ready, to take the place of the one that was last read."""
        self._refuse_read_only()
        return PendingObject(self._parts, keys.current(store_package(name)), data)

    def close(self) -> None:
        """Ask nothing any more; twice is fine."""
        self._parts.objects.close()

    def _write(self, key: str, data: bytes) -> None:
        self._refuse_read_only()
        self._parts.small.put(key, data, self._parts.objects.write(key, data))


def version_of(name: str, version: str) -> Version:
    """Return a version, its names checked; InvalidNameError if a store can have none of them."""
    return Version(store_package(name), store_version(version))


def use_of(key: str, size: int, links: int = 1) -> FileUse:
    """Return an object as a file: one name of it for each generation that refers to it."""
    inode = int.from_bytes(hashlib.sha256(key.encode()).digest()[:8], "big")
    return FileUse(0, inode, links, size)
