"""A store in a bucket: see `keys` for what lies where.

Several daemons may have the same one open. All that matters is in the bucket, each change of it is
one conditional write, and what another daemon changed is noticed within `refresh` seconds.
"""

from __future__ import annotations

import fcntl
import os
import threading
from contextlib import ExitStack, suppress
from typing import TYPE_CHECKING, Final

from sealcar.errors import (
    AlreadyExistsError,
    ConflictError,
    NotFoundError,
    SealcarError,
    StorageError,
    UnknownFormatError,
)
from sealcar_server.store.area import LOCK, STAGING, StagingArea
from sealcar_server.store.bucket.cache import Cache
from sealcar_server.store.bucket.fetching import Fetcher
from sealcar_server.store.bucket.generation import BucketGeneration, Departed, Parts
from sealcar_server.store.bucket.keys import IDENTITY
from sealcar_server.store.bucket.listings import Listings
from sealcar_server.store.bucket.numbers import Numbers
from sealcar_server.store.bucket.own_objects import OwnObjects, version_of
from sealcar_server.store.bucket.payloads import Payloads
from sealcar_server.store.bucket.publishing import Publishing
from sealcar_server.store.bucket.removing import Removing
from sealcar_server.store.bucket.small import SmallObjects
from sealcar_server.store.bucket.staging import BucketStaging
from sealcar_server.store.directory import Directory
from sealcar_server.store.failure import storing
from sealcar_server.store.identity import MAX_IDENTITY, StoreIdentity
from sealcar_server.store.places import store_package
from sealcar_server.store.staging import LocalStaging

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from contextlib import AbstractContextManager
    from pathlib import Path

    from sealcar_server.store.bucket.files import Files
    from sealcar_server.store.bucket.objects import Objects
    from sealcar_server.store.bucket.options import Options
    from sealcar_server.store.usage import FileUse

_CACHE: Final = "cache"
_ANSWER: Final = 2.0  # seconds


class BucketStore(OwnObjects):
    """As `interface.Store`.

    Args:
        root: directory of this machine, for what is under way; belongs to this object.
        objects: of the bucket; so do they.
        files: opens payloads; and this.
        identity: of the store.
        options: what may be configured.
    """

    def __init__(
        self,
        root: Directory,
        objects: Objects,
        files: Files,
        identity: StoreIdentity,
        options: Options,
    ) -> None:
        self._root, self._files, self.refresh = root, files, options.refresh
        self._area = StagingArea(root)
        small = SmallObjects(objects, options.refresh)
        self._listings = Listings(objects, small, options.refresh)
        payloads = Payloads(objects, small, self._listings)
        parts = Parts(objects, small, payloads, files, self._area, Departed())
        super().__init__(parts, identity, read_only=options.read_only)
        self._numbers = Numbers(small, self._listings)
        self._removing = Removing(parts, self._listings, self._numbers, abandoned=options.abandoned)

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
    def open(cls, path: Path, objects: Objects, options: Options) -> BucketStore:
        """Open a store, and clean up what dead processes left on this machine.

        Args:
            path: directory of this machine, which is there; no other daemon uses it.
            objects: of the bucket; the store closes them.
            options: what may be configured.

        Raises:
            NotFoundError: there is no such directory.
            UnknownFormatError: the bucket holds no store, or one of a newer release.
            NotAuthenticError: its `store.json` is damaged, or others can write to the cache.
            StorageError: the bucket, or the directory, can't be read.
        """
        try:
            identity = StoreIdentity.parse(objects.read(IDENTITY, MAX_IDENTITY)[0])
        except NotFoundError:
            raise UnknownFormatError(
                f"{objects.place} holds no {IDENTITY}: make a store with `sealcar init --bucket`"
            ) from None
        with ExitStack() as undo:
            root = undo.enter_context(Directory.open(path))
            _claim(root, path)
            root.ensure(STAGING).close()
            with suppress(AlreadyExistsError):
                os.close(root.create_file(LOCK))
            cache = Cache(root.ensure(_CACHE), options.cache_size, options.meter)
            files = undo.enter_context(Fetcher(objects, cache, patience=objects.place.patience))
            store = cls(root, objects, files, identity, options)
            undo.pop_all()
        store._area.clean()
        return store

    @property
    def bucket(self) -> str:
        """Where it is."""
        return str(self._parts.objects.place)

    def let_go(self) -> None:
        """Fetch no payload any more, and tell whoever waits for one."""
        self._files.close()

    def failure(self) -> str:
        """Return why the bucket can't be reached now; empty: it can."""
        found: list[str] = []
        # a thread of its own: connecting to nobody takes longer than somebody waits for this
        asking = threading.Thread(target=lambda: found.append(self._ask()), daemon=True)
        asking.start()
        asking.join(_ANSWER)
        return found[0] if found else f"{self.bucket} doesn't answer within {_ANSWER:g} s"

    def names(self) -> list[str]:
        """Return the names of packages, sorted."""
        found = self._listings.everything().items()
        return sorted(name for name, each in found if any(one.numbers for one in each.values()))

    def prepare(self, names: Sequence[str]) -> None:
        """Have at hand what a list tells of these packages."""
        self._parts.small.have(self._listings.small_ones(map(store_package, names)))

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
        self._refuse_read_only()
        of = version_of(name, version)
        local = LocalStaging(self._root, self._area, of.name, of.version)
        return BucketStaging(local, Publishing(self._parts, self._numbers, of))

    def tell(self, departed: Callable[[str, str, int, int], None]) -> None:
        """Have this called before a generation goes with its version, or as if it had."""
        self._parts.departed.tell = departed

    def look_anew(self, name: str, version: str) -> None:
        """Believe nothing that is remembered of a version's generations."""
        self._numbers.changed(version_of(name, version))

    def remove(self, name: str, version: str, number: int) -> None:
        """Remove a generation."""
        with self.taking_out(name, version, number):
            pass

    def taking_out(self, name: str, version: str, number: int = 0) -> AbstractContextManager[None]:
        """Take out a generation or the whole version: gone inside, its objects at the end."""
        self._refuse_read_only()
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

    def close(self) -> None:
        """Close the store; twice is fine."""
        self._files.close()
        self._root.close()
        super().close()

    def _ask(self) -> str:
        try:
            self._parts.objects.read_changed(IDENTITY, MAX_IDENTITY, "", patience=_ANSWER / 2)
        except SealcarError as error:
            return error.message
        return ""


def _claim(root: Directory, path: Path) -> None:
    """Be the only one who uses a directory for a bucket, until it is closed."""
    with storing(f"locking {path}"):
        try:
            fcntl.flock(root.fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise StorageError(
                f"another daemon has its copies in {path}: give each one a store.path of its own"
            ) from None
