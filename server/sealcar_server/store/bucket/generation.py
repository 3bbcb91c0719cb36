"""A generation in a bucket."""

from __future__ import annotations

import os
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from sealcar.errors import NotFoundError
from sealcar_server.store.bucket.files import fetch
from sealcar_server.store.bucket.keys import Version
from sealcar_server.store.failure import storing
from sealcar_server.store.generation import (
    MANIFEST,
    MAX_MANIFEST,
    asset_path,
    payload_path,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from sealcar_server.sealing.sealed_file import SealedFile
    from sealcar_server.store.area import StagingArea
    from sealcar_server.store.bucket.files import Files
    from sealcar_server.store.bucket.objects import Objects
    from sealcar_server.store.bucket.payloads import Payloads
    from sealcar_server.store.bucket.small import SmallObjects
    from sealcar_server.store.directory import Directory


class Departed:
    """Tells whoever wants to be told of generations that go with their version."""

    def __init__(self) -> None:
        self.tell: Callable[[str, str, int, int], None] = lambda *_: None

    def __call__(self, of: Version, number: int, after: int = 0) -> None:
        """Tell of one, before it goes; what that raises keeps it. As `interface.Store.tell`."""
        self.tell(of.name, of.version, number, after)


@dataclass(frozen=True)
class Parts:
    """What generations of one store are read with.

    Attributes:
        objects, small, payloads: of the bucket.
        files: opens payloads.
        area: room on this machine.
        departed: is called before a generation goes with its version, or as if it had.
    """

    objects: Objects
    small: SmallObjects
    payloads: Payloads
    files: Files
    area: StagingArea
    departed: Departed


@dataclass(frozen=True)
class BucketGeneration:
    """A `Generation`."""

    parts: Parts = field(repr=False)
    name: str
    version: str
    number: int

    @property
    def of(self) -> Version:
        """The version that it is of."""
        return Version(self.name, self.version)

    def manifest(self) -> bytes:
        """Return `manifest.json`; as `Generation`."""
        data = self.parts.small.get(self.of.manifest(self.number), MAX_MANIFEST)
        if not data:
            raise NotFoundError(f"{MANIFEST} doesn't exist")
        return data

    def open_payload(self, component: str, variant: str, name: str) -> SealedFile:
        """Return a payload's file; as `Generation`."""
        return self._open(payload_path(component, variant, name))

    def open_asset(self, uri: str, name: str) -> SealedFile:
        """Return a file of a shared asset; as `Generation`."""
        return self._open(asset_path(uri, name))

    def ident(self, path: Sequence[str]) -> str:
        """Return the id of a payload by the steps to it; NotFoundError if it isn't there."""
        with self._anew_if_missing():
            found = self.parts.payloads.ident(self.of, self.number, "/".join(path))
            self.parts.payloads.require(self.of, found)
            return found

    def place_file(self, path: Sequence[str], folder: Directory) -> str:
        """Copy a payload to this machine; as `Generation`."""
        key = self._key(path)
        fd = folder.create_file(path[-1])
        try:
            fetch(self.parts.objects, key, fd)
            with storing("a copy of a payload"):
                os.fsync(fd)
        except BaseException:
            folder.remove(path[-1])
            raise
        finally:
            os.close(fd)
        return "copy"

    @contextmanager
    def tree(self) -> Iterator[Directory]:
        """Give a directory of this machine with all its names; as `Generation`."""
        places, payloads = self.parts.payloads.of(self.of, self.number), self.parts.payloads
        label, directory = self.parts.area.claim()
        with directory:
            try:
                directory.write(MANIFEST, self.manifest())
                for path, ident in places.items():
                    # one that is missing is missing there, too
                    with suppress(NotFoundError):
                        size, _ = payloads.object(self.of.payload(ident))
                        _placeholder(directory, path.split("/"), size)
                yield directory
            finally:
                with self.parts.area.enter() as area:
                    area.remove(label)

    def _open(self, path: Sequence[str]) -> SealedFile:
        with self._anew_if_missing():
            key = self._key(path)
            size, etag = self.parts.payloads.object(key)
            return self.parts.files.open(key, size, etag)

    @contextmanager
    def _anew_if_missing(self) -> Iterator[None]:
        """Let whoever asks after this whether the generation is there be told what is true then."""
        try:
            yield
        except NotFoundError:
            self.parts.small.now(self.of.manifest(self.number), MAX_MANIFEST)
            raise

    def _key(self, path: Sequence[str]) -> str:
        return self.of.payload(self.parts.payloads.ident(self.of, self.number, "/".join(path)))


def _placeholder(root: Directory, path: Sequence[str], size: int) -> None:
    """Make an empty file of a size, with nothing on the disk."""
    with root.ensure(*path[:-1]) as folder, storing("a place of a payload"):
        fd = folder.create_file(path[-1])
        try:
            os.ftruncate(fd, size)
        finally:
            os.close(fd)
