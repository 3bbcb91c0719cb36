"""A generation in the making: seen by nobody until one rename publishes it whole."""

from __future__ import annotations

import errno
import os
from typing import TYPE_CHECKING, Final, Self

from sealcar.errors import ConflictError, WrongStateError
from sealcar_server.sealing.sealed_file import LocalFile
from sealcar_server.store.failure import storing
from sealcar_server.store.generation import (
    ASSETS,
    GENERATIONS,
    MANIFEST,
    asset_folder,
    asset_path,
    new_asset_path,
    payload_path,
)
from sealcar_server.store.local_generation import LocalGeneration

if TYPE_CHECKING:
    from sealcar_server.sealing.sealed_file import SealedFile
    from sealcar_server.store.area import StagingArea
    from sealcar_server.store.directory import Directory
    from sealcar_server.store.generation import Generation

_SCOPE: Final = 2  # component and variant, which are no part of a payload's name


class LocalStaging:
    """One writer's staging directory; discarded on leaving the context unless published.

    Not thread-safe but for what is done to the descriptors that it hands out.
    """

    def __init__(self, root: Directory, area: StagingArea, name: str, version: str) -> None:
        self._root, self._area = root, area
        self._place = (name, version)
        self._own: dict[tuple[str, ...], bool] = {}  # path of a file -> whether linked
        self._folders: set[tuple[str, ...]] = {()}
        self._label, self._directory = area.claim()
        self._closed = False

    def create_payload(self, component: str, variant: str, name: str) -> int:
        """Return a descriptor of a new payload file, which the caller owns.

        Raises:
            InvalidNameError: the name breaks a rule.
            AlreadyExistsError: it was created or linked before.
            ExhaustedError: the disk is full.
        """
        return self._create(tuple(payload_path(component, variant, name)))

    def create_variant(self, component: str, variant: str) -> None:
        """Make the directory of a variant that may have no payload of its own."""
        self._folder(tuple(payload_path(component, variant, "any")[:-1])).close()

    def create_asset(self, label: str, name: str) -> int:
        """Return a descriptor of a new file of a shared asset that isn't named yet.

        Args:
            label: tells it from the others until it is named.
            name: of the payload; raises as `create_payload`.
        """
        return self._create(tuple(new_asset_path(label, name)))

    def open_new_asset(self, label: str, name: str) -> SealedFile:
        """Return a file that `create_asset` made, open for reading; as `open_payload`."""
        return self._open(tuple(new_asset_path(label, name)))

    def enter_asset(self, label: str) -> Directory:
        """Open the directory of an asset, by its label or by the name that it has got."""
        return self._directory.enter(ASSETS, label)

    def name_asset(self, label: str, uri: str) -> None:
        """Give an asset its name.

        Raises:
            AlreadyExistsError: there is another one of this name.
        """
        old, new = (ASSETS, label), (ASSETS, asset_folder(uri))
        with self._directory.enter(ASSETS) as assets, storing("naming a shared asset"):
            os.rename(label, new[-1], src_dir_fd=assets.fd, dst_dir_fd=assets.fd)
        self._own = {_moved(path, old, new): linked for path, linked in self._own.items()}
        self._folders = {_moved(path, old, new) for path in self._folders}

    def remove_asset(self, label: str) -> None:
        """Remove an asset again, by its label or by its name; fine if there is none."""
        gone = (ASSETS, label)
        self._own = {path: how for path, how in self._own.items() if path[: len(gone)] != gone}
        self._folders = {path for path in self._folders if path[: len(gone)] != gone}
        with self._folder(gone[:-1]) as assets:
            assets.remove(label)

    def open_payload(self, component: str, variant: str, name: str) -> SealedFile:
        """Return a payload file, open for reading, which the caller owns.

        Raises:
            NotFoundError: there is none.
            WrongStateError: the staging has ended.
        """
        return self._open(tuple(payload_path(component, variant, name)))

    def remove_payload(self, component: str, variant: str, name: str) -> None:
        """Remove a payload file again; fine if there is none, or the staging has ended."""
        path = tuple(payload_path(component, variant, name))
        if not self._closed and self._own.pop(path, None) is not None:
            with self._folder(path[:-1]) as folder:
                folder.remove(path[-1])
            self._remove_empty(path[:-1])

    def link_payload(self, source: Generation, component: str, variant: str, name: str) -> str:
        """Take over an unchanged payload; return how: "link", "reflink" or "copy".

        Raises:
            NotFoundError: the source generation has no such file.
            AlreadyExistsError: it was created or linked before.
            ExhaustedError: the disk is full.
        """
        return self._link(source, tuple(payload_path(component, variant, name)))

    def link_asset(self, source: Generation, uri: str, name: str) -> str:
        """Take over a file of a shared asset; as `link_payload`."""
        return self._link(source, tuple(asset_path(uri, name)))

    def files(self) -> list[tuple[str, ...]]:
        """Return the steps to each file that was created or linked."""
        return list(self._own)

    def open_file(self, path: tuple[str, ...]) -> int:
        """Return a read-only descriptor of one of `files`, which the caller owns."""
        self._refuse_if_closed()
        with self._directory.enter(*path[:-1]) as folder:
            return folder.open_file(path[-1])

    def unlink_payloads(self) -> None:
        """Give up everything that was linked, so that it can be linked from another generation."""
        for path in [path for path, linked in self._own.items() if linked]:
            with self._folder(path[:-1]) as folder:
                folder.remove(path[-1])
            del self._own[path]
        for path in sorted(self._folders, key=len, reverse=True):
            # one that was removed took those above it along
            if path[:1] == (ASSETS,) and path in self._folders:
                self._remove_empty(path)

    def publish(self, manifest: bytes, number: int) -> LocalGeneration:
        """Make everything durable, then visible as generation `number`, in one step.

        Raises:
            ConflictError: there is a generation of that number; the staging stays as it was.
            ExhaustedError, StorageError: nothing was published; the staging stays as it was.
        """
        self._refuse_if_closed()
        self._directory.remove(MANIFEST)
        self._directory.write(MANIFEST, manifest)
        self._sync()
        with self._root.ensure(*self._place, GENERATIONS) as generations:
            self._rename(generations, number)
            self._close()
            generations.sync()
        with self._area.enter() as area:
            area.sync()
        return LocalGeneration(self._root, *self._place, number)

    def discard(self) -> None:
        """Remove everything; fine if it was published or discarded before.

        Raises:
            StorageError, ExhaustedError: it can't be removed now; the next start cleans up.
        """
        if self._closed:
            return
        try:
            with self._area.enter() as area:
                area.remove(self._label)
        finally:
            self._close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.discard()

    def _create(self, path: tuple[str, ...]) -> int:
        with self._folder(path[:-1]) as folder:
            fd = folder.create_file(path[-1])
        self._own[path] = False
        return fd

    def _open(self, path: tuple[str, ...]) -> SealedFile:
        return LocalFile(self.open_file(path))

    def _link(self, source: Generation, path: tuple[str, ...]) -> str:
        with self._folder(path[:-1]) as folder:
            how = source.place_file(path, folder)
        self._own[path] = True
        return how

    def _folder(self, path: tuple[str, ...]) -> Directory:
        self._refuse_if_closed()
        self._folders.update(path[:depth] for depth in range(1, len(path) + 1))
        return self._directory.ensure(*path)

    def _remove_empty(self, path: tuple[str, ...]) -> None:
        """Remove a payload's folders that nothing is in any more: their names are free again."""
        kept = 0 if path[0] == ASSETS else _SCOPE
        for depth in range(len(path), kept, -1):
            with self._directory.enter(*path[: depth - 1]) as above:
                if not above.remove_if_empty(path[depth - 1]):
                    return
            self._folders.discard(path[:depth])

    def _sync(self) -> None:
        """Make files durable before the names that lead to them."""
        for path in [path for path, linked in self._own.items() if not linked]:
            with self._directory.enter(*path[:-1]) as folder:
                fd = folder.open_file(path[-1])
            try:
                with storing(path[-1]):
                    os.fsync(fd)
            finally:
                os.close(fd)
        for path in sorted(self._folders, key=len, reverse=True):
            with self._directory.enter(*path) as folder:
                folder.sync()

    def _rename(self, generations: Directory, number: int) -> None:
        with self._area.enter() as area, storing(f"publishing generation {number}"):
            try:
                os.rename(self._label, str(number), src_dir_fd=area.fd, dst_dir_fd=generations.fd)
            except OSError as error:
                if error.errno in {errno.ENOTEMPTY, errno.EEXIST, errno.ENOTDIR}:
                    raise ConflictError(f"generation {number} was published by another") from None
                raise

    def _refuse_if_closed(self) -> None:
        if self._closed:
            raise WrongStateError("what was staged is published or discarded already")

    def _close(self) -> None:
        self._closed = True
        self._directory.close()


def _moved(path: tuple[str, ...], old: tuple[str, ...], new: tuple[str, ...]) -> tuple[str, ...]:
    return new + path[len(old) :] if path[: len(old)] == old else path
