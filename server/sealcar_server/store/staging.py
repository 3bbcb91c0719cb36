"""A generation in the making: seen by nobody until one rename publishes it whole."""

from __future__ import annotations

import errno
import os
from typing import TYPE_CHECKING, Final, Self

from sealcar.errors import ConflictError, WrongStateError
from sealcar_server.store import copying
from sealcar_server.store.failure import storing
from sealcar_server.store.generation import GENERATIONS, MANIFEST, Generation, payload_path

if TYPE_CHECKING:
    from types import TracebackType

    from sealcar_server.store.area import StagingArea
    from sealcar_server.store.directory import Directory


_SCOPE: Final = 2  # component and variant, which are no part of a payload's name


class Staging:
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
        path = tuple(payload_path(component, variant, name))
        with self._folder(path[:-1]) as folder:
            fd = folder.create_file(path[-1])
        self._own[path] = False
        return fd

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
        path = tuple(payload_path(component, variant, name))
        with source.enter(*path[:-1]) as origin, self._folder(path[:-1]) as folder:
            how = copying.place(origin, folder, path[-1])
        self._own[path] = True
        return how

    def unlink_payloads(self) -> None:
        """Give up everything that was linked, so that it can be linked from another generation."""
        for path in [path for path, linked in self._own.items() if linked]:
            with self._folder(path[:-1]) as folder:
                folder.remove(path[-1])
            del self._own[path]

    def publish(self, manifest: bytes, number: int) -> Generation:
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
        return Generation(self._root, *self._place, number)

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

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.discard()

    def _folder(self, path: tuple[str, ...]) -> Directory:
        self._refuse_if_closed()
        self._folders.update(path[:depth] for depth in range(1, len(path) + 1))
        return self._directory.ensure(*path)

    def _remove_empty(self, path: tuple[str, ...]) -> None:
        """Remove a payload's folders that nothing is in any more: their names are free again."""
        for depth in range(len(path), _SCOPE, -1):
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
