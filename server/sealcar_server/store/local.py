"""A store in a local directory.

    store.json                      which store this is
    .lock  .staging/                who may clean, and unfinished work
    NAME/current                    the version that an empty version means
    NAME/VERSION/g/N/               a generation: manifest.json and COMPONENT/VARIANT/PAYLOAD
    NAME/VERSION/tombstone          in place of its generations, once it is shredded

Names and versions are checked; every access walks from the root's descriptor, following no link.
"""

from __future__ import annotations

import os
import re
from contextlib import suppress
from typing import TYPE_CHECKING, Final, Self

from sealcar import names
from sealcar.errors import (
    AlreadyExistsError,
    InvalidNameError,
    NotAuthenticError,
    NotFoundError,
    UnknownFormatError,
)
from sealcar_server.store.area import LOCK, STAGING, StagingArea
from sealcar_server.store.directory import Directory
from sealcar_server.store.failure import storing
from sealcar_server.store.generation import GENERATIONS, MANIFEST, Generation
from sealcar_server.store.identity import MAX_IDENTITY, StoreIdentity
from sealcar_server.store.removing import remove_generation
from sealcar_server.store.staging import Staging
from sealcar_server.store.staging_pointer import CURRENT, StagedPointer

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path
    from types import TracebackType

IDENTITY: Final = "store.json"
TOMBSTONE: Final = "tombstone"
MAX_CURRENT: Final = 64 * 1024
_NUMBER: Final = re.compile(r"[1-9][0-9]{0,17}")


class LocalStore:
    """An open store; safe to share between threads."""

    def __init__(self, root: Directory, identity: StoreIdentity) -> None:
        self._root = root
        self.identity = identity
        self._area = StagingArea(root)

    @classmethod
    def create(cls, path: Path, identity: StoreIdentity) -> LocalStore:
        """Found a store in a directory, which is made if it is missing.

        Raises:
            AlreadyExistsError: there is a store already.
            ExhaustedError, StorageError: the directory can't be written.
        """
        with storing(f"the store {path}"):
            path.mkdir(mode=0o700, parents=True, exist_ok=True)
        with Directory.open(path) as root:
            root.ensure(STAGING).close()
            # never replaced: who holds it would lock another file than who comes later
            with suppress(AlreadyExistsError):
                os.close(root.create_file(LOCK))
            root.write(IDENTITY, identity.serialise())
            root.sync()
        return cls.open(path)

    @classmethod
    def open(cls, path: Path) -> LocalStore:
        """Open a store, and clean up what dead processes left in it.

        Raises:
            NotFoundError: there is no such directory.
            UnknownFormatError: it is no store, or one of a newer release.
            NotAuthenticError: its `store.json` is damaged.
        """
        root = Directory.open(path)
        try:
            store = cls(root, StoreIdentity.parse(root.read(IDENTITY, MAX_IDENTITY)))
        except NotFoundError:
            root.close()
            raise UnknownFormatError(
                f"{path} holds no store.json: make a store with `sealcar init`"
            ) from None
        except BaseException:
            root.close()
            raise
        store._area.clean()
        return store

    def names(self) -> list[str]:
        """Return the names of packages, sorted."""
        return [name for name in self._root.directories() if _fits(name, store_package)]

    def versions(self, name: str) -> list[str]:
        """Return the versions that have a generation, sorted; none if there is no package.

        One whose generations can't be listed is among them: opening it says what is wrong.
        """
        try:
            with self._root.enter(store_package(name)) as package:
                found = [name for name in package.directories() if _fits(name, store_version)]
        except NotFoundError:
            return []
        return [version for version in found if self._holds_any(name, version)]

    def numbers(self, name: str, version: str) -> list[int]:
        """Return the generations' numbers, newest first; none if there is no such version."""
        try:
            with self._root.enter(
                store_package(name), store_version(version), GENERATIONS
            ) as generations:
                found = [text for text in generations.directories() if _NUMBER.fullmatch(text)]
        except NotFoundError:
            return []
        return sorted(map(int, found), reverse=True)

    def newest(self, name: str, version: str) -> int:
        """Return the number of the newest complete generation; 0 if there is none."""
        numbers = self.numbers(name, version)
        return next((n for n in numbers if self._complete(name, version, n)), 0)

    def generation(self, name: str, version: str, number: int) -> Generation:
        """Return a generation.

        Raises:
            NotFoundError: there is no complete one of that number.
        """
        if not self._complete(store_package(name), store_version(version), number):
            raise NotFoundError(f"no generation {number}")
        return Generation(self._root, name, version, number)

    def stage(self, name: str, version: str) -> Staging:
        """Begin a new generation.

        Raises:
            InvalidNameError: name or version breaks a rule.
            ExhaustedError, StorageError: nothing can be written.
        """
        return Staging(self._root, self._area, store_package(name), store_version(version))

    def remove(self, name: str, version: str, number: int) -> None:
        """Remove a generation.

        Raises:
            NotFoundError: there is none of that number.
            StorageError: it can't be removed.
        """
        place = (store_package(name), store_version(version), number)
        remove_generation(self._root, self._area, place)

    def read_tombstone(self, name: str, version: str) -> bytes | None:
        """Return the tombstone of a version as it was written; None if there is none."""
        try:
            with self._root.enter(store_package(name), store_version(version)) as folder:
                return folder.read(TOMBSTONE, MAX_CURRENT)
        except NotFoundError:
            return None

    def write_tombstone(self, name: str, version: str, data: bytes) -> None:
        """Mark a version as shredded, durably.

        Raises:
            NotFoundError: there is no such version.
            ExhaustedError, StorageError: it can't be written.
        """
        with StagedPointer(self._root, self._area, data) as staged:
            staged.publish_as(TOMBSTONE, store_package(name), store_version(version))

    def replace_identity(self, identity: StoreIdentity) -> None:
        """Write `store.json` anew: a reader sees the old or the new one, whole.

        Raises:
            ExhaustedError, StorageError: the old one stands.
        """
        with StagedPointer(self._root, self._area, identity.serialise()) as staged:
            staged.publish_as(IDENTITY)
        self.identity = identity

    def read_current(self, name: str) -> bytes | None:
        """Return the pointer to the current version as it was written; None if there is none."""
        try:
            with self._root.enter(store_package(name)) as package:
                return package.read(CURRENT, MAX_CURRENT)
        except NotFoundError:
            return None

    def stage_current(self, data: bytes) -> StagedPointer:
        """Write a pointer beside, durably, so that publishing it needs no more room.

        Raises:
            ExhaustedError, StorageError: it can't be written.
        """
        return StagedPointer(self._root, self._area, data)

    def _holds_any(self, name: str, version: str) -> bool:
        try:
            return bool(self.numbers(name, version))
        except NotAuthenticError:
            return True

    def _complete(self, name: str, version: str, number: int) -> bool:
        try:
            with self._root.enter(name, version, GENERATIONS, str(number)) as generation:
                os.close(generation.open_file(MANIFEST))
        except NotFoundError:
            return False
        return True

    def close(self) -> None:
        """Close the store; twice is fine."""
        self._root.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()


def store_package(name: str) -> str:
    """Check the name of a package; InvalidNameError if the store can't have one of that name."""
    if names.store_name(name) == IDENTITY:
        raise InvalidNameError(f"package name {IDENTITY} is a name of the store")
    return name


def store_version(version: str) -> str:
    """Check a version; InvalidNameError if the store can't have one of that name."""
    if names.store_name(version, "version") == CURRENT:
        raise InvalidNameError(f"version {CURRENT} is a name of the store")
    return version


def _fits(name: str, check: Callable[[str], str]) -> bool:
    try:
        check(name)
    except InvalidNameError:
        return False
    return True
