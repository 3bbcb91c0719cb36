"""A store in a local directory.

    store.json                      which store this is
    .lock  .staging/                who may clean, and unfinished work
    assets/LABEL                    where an equal shared asset lies
    NAME/current                    the version that an empty version means
    NAME/VERSION/g/N/               a generation: manifest.json, COMPONENT/VARIANT/PAYLOAD,
                                    shared_assets/sha256-HASH/PAYLOAD
    NAME/VERSION/tombstone          in place of its generations, once it is shredded

Names and versions are checked; every access walks from the root's descriptor, following no link.
"""

from __future__ import annotations

import os
import re
from contextlib import suppress
from typing import TYPE_CHECKING, Final

from sealcar.errors import (
    AlreadyExistsError,
    NotAuthenticError,
    NotFoundError,
    UnknownFormatError,
)
from sealcar_server.store.area import LOCK, STAGING
from sealcar_server.store.directory import Directory
from sealcar_server.store.failure import storing
from sealcar_server.store.generation import GENERATIONS, MANIFEST
from sealcar_server.store.identity import MAX_IDENTITY, StoreIdentity
from sealcar_server.store.local_generation import LocalGeneration
from sealcar_server.store.own_files import OwnFiles
from sealcar_server.store.places import IDENTITY, fits, store_package, store_version
from sealcar_server.store.removing import taking_out
from sealcar_server.store.staging import LocalStaging
from sealcar_server.store.usage import FileUse, files_below

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from contextlib import AbstractContextManager
    from pathlib import Path

_NUMBER: Final = re.compile(r"[1-9][0-9]{0,17}")


class LocalStore(OwnFiles):
    """An open store; safe to share between threads."""

    refresh: Final = 0.0  # no other daemon changes it
    bucket: Final = ""

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
    def open(cls, path: Path, *, read_only: bool = False) -> LocalStore:
        """Open a store, and clean up what dead processes left in it, unless it is read-only.

        Raises:
            NotFoundError: there is no such directory.
            UnknownFormatError: it is no store, or one of a newer release.
            NotAuthenticError: its `store.json` is damaged.
        """
        root = Directory.open(path)
        try:
            identity = StoreIdentity.parse(root.read(IDENTITY, MAX_IDENTITY))
            store = cls(root, identity, read_only=read_only)
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
        return [name for name in self._root.directories() if fits(name, store_package)]

    def versions(self, name: str) -> list[str]:
        """Return the versions that have a generation, sorted; none if there is no package.

        One whose generations can't be listed is among them: opening it says what is wrong.
        """
        try:
            with self._root.enter(store_package(name)) as package:
                found = [name for name in package.directories() if fits(name, store_version)]
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
        return next((n for n in numbers if self.is_complete(name, version, n)), 0)

    def is_complete(self, name: str, version: str, number: int) -> bool:
        """Tell whether there is a generation of that number, and its manifest."""
        try:
            os.close(self._root.open_below(name, version, GENERATIONS, str(number), MANIFEST))
        except NotFoundError:
            return False
        return True

    def generation(self, name: str, version: str, number: int) -> LocalGeneration:
        """Return a generation.

        Raises:
            NotFoundError: there is no complete one of that number.
        """
        if not self.is_complete(store_package(name), store_version(version), number):
            raise NotFoundError(f"no generation {number}")
        return LocalGeneration(self._root, name, version, number)

    def place(self, name: str, version: str, number: int) -> LocalGeneration:
        """Return where a generation belongs, whether or not it is there; as `stage` for names."""
        return LocalGeneration(self._root, store_package(name), store_version(version), number)

    def stage(self, name: str, version: str) -> LocalStaging:
        """Begin a new generation.

        Raises:
            InvalidNameError: name or version breaks a rule.
            ExhaustedError, StorageError: nothing can be written.
        """
        return LocalStaging(self._root, self._area, store_package(name), store_version(version))

    def remove(self, name: str, version: str, number: int) -> None:
        """Remove a generation.

        Raises:
            NotFoundError: there is none of that number.
            StorageError: it can't be removed.
        """
        with self.taking_out(name, version, number):
            pass

    def taking_out(self, name: str, version: str, number: int = 0) -> AbstractContextManager[None]:
        """Take out a generation, or the whole version: gone inside, its files removed at the end.

        Raises:
            NotFoundError: there is none.
            StorageError: it can't be removed.
        """
        path = (store_package(name), store_version(version))
        below = (GENERATIONS, str(number)) if number else ()
        return taking_out(self._root, self._area, *path, *below)

    def usage(self, name: str, version: str, number: int) -> list[FileUse]:
        """Return the files of a generation, complete or not.

        Raises:
            NotFoundError: there is none of that number.
            StorageError: it can't be listed.
        """
        path = (store_package(name), store_version(version), GENERATIONS, str(number))
        with self._root.enter(*path) as directory:
            return list(files_below(directory))

    def clean(self, *, only_look: bool = False) -> list[FileUse]:
        """Remove what dead processes left, unless it can't be done now; return its files."""
        return self._area.clean(only_look=only_look)

    def let_go(self) -> None:
        """Do nothing: nobody waits for a directory."""

    def failure(self) -> str:
        """Return nothing: a directory is there."""
        return ""

    def prepare(self, names: Sequence[str]) -> None:
        """Have nothing at hand: the disk is."""

    def read_departure(self, name: str, version: str) -> None:
        """Return None: nobody else removes anything from a directory."""

    def write_departure(self, name: str, version: str, data: bytes) -> None:
        """Write nothing: there is nobody who would read it."""

    def tell(self, departed: Callable[[str, str, int, int], None]) -> None:
        """Call nobody: there is nobody who would have to know."""

    def look_anew(self, name: str, version: str) -> None:
        """Nothing is remembered."""

    def _holds_any(self, name: str, version: str) -> bool:
        try:
            return bool(self.numbers(name, version))
        except NotAuthenticError:
            return True
