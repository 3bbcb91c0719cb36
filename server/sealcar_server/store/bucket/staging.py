"""A generation in the making, for a bucket: staged on this machine, uploaded when it is published.

What doesn't change is referred to, not copied, if it lies in the same version: the generation that
is followed has it too, and that one can't be removed unless there is a newer one, which then has
the number that is wanted here, or had it. Of other packages a copy is made: here, for whoever looks
at it, and by the service in the bucket.
"""

from __future__ import annotations

import os
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from typing import TYPE_CHECKING, Final, Self

from sealcar.errors import AlreadyExistsError, ConflictError, NotFoundError, SealcarError
from sealcar.names import shown
from sealcar_server.store.bucket.generation import BucketGeneration
from sealcar_server.store.generation import asset_path, payload_path

if TYPE_CHECKING:
    from sealcar_server.sealing.sealed_file import SealedFile
    from sealcar_server.store.bucket.publishing import Publishing
    from sealcar_server.store.directory import Directory
    from sealcar_server.store.generation import Generation
    from sealcar_server.store.staging import LocalStaging

_AT_ONCE: Final = 4  # uploads
_Path = tuple[str, ...]


class BucketStaging:
    """As `staging.LocalStaging`.

    Args:
        local: what is staged on this machine; discarded with this.
        publishing: makes it visible.
    """

    def __init__(self, local: LocalStaging, publishing: Publishing) -> None:
        self._local, self._publishing = local, publishing
        self._referred: dict[_Path, str] = {}
        self._uploaded: dict[_Path, str] = {}
        self._copied: dict[_Path, str] = {}  # keys of what lies in the bucket already

    def create_payload(self, component: str, variant: str, name: str) -> int:
        """Return a descriptor of a new payload file, which the caller owns."""
        self._refuse_referred(tuple(payload_path(component, variant, name)))
        return self._local.create_payload(component, variant, name)

    def create_variant(self, component: str, variant: str) -> None:
        """Check the names: in a bucket a variant without payloads needs no place."""
        self._local.create_variant(component, variant)

    def create_asset(self, label: str, name: str) -> int:
        """Return a descriptor of a new file of a shared asset that isn't named yet."""
        return self._local.create_asset(label, name)

    def open_new_asset(self, label: str, name: str) -> SealedFile:
        """Return a file that `create_asset` made, open for reading."""
        return self._local.open_new_asset(label, name)

    def enter_asset(self, label: str) -> Directory:
        """Open the directory of an asset that was created, or linked from another package."""
        return self._local.enter_asset(label)

    def name_asset(self, label: str, uri: str) -> None:
        """Give an asset its name."""
        self._local.name_asset(label, uri)

    def remove_asset(self, label: str) -> None:
        """Remove an asset again."""
        self._local.remove_asset(label)

    def open_payload(self, component: str, variant: str, name: str) -> SealedFile:
        """Return a file that `create_payload` made, open for reading."""
        return self._local.open_payload(component, variant, name)

    def remove_payload(self, component: str, variant: str, name: str) -> None:
        """Remove a payload file again."""
        self._local.remove_payload(component, variant, name)
        ident = self._uploaded.pop(tuple(payload_path(component, variant, name)), "")
        if ident:
            self._publishing.drop([ident])

    def link_payload(self, source: Generation, component: str, variant: str, name: str) -> str:
        """Take over an unchanged payload; return "reference" or "copy"."""
        path = tuple(payload_path(component, variant, name))
        if self._refer(source, path):
            return "reference"
        how = self._local.link_payload(source, component, variant, name)
        self._note_copy(source, path)
        return how

    def link_asset(self, source: Generation, uri: str, name: str) -> str:
        """Take over a file of a shared asset; as `link_payload`."""
        path = tuple(asset_path(uri, name))
        if self._refer(source, path):
            return "reference"
        how = self._local.link_asset(source, uri, name)
        self._note_copy(source, path)
        return how

    def unlink_payloads(self) -> None:
        """Give up everything that was linked, so that it can be linked from another generation."""
        self._referred.clear()
        self._copied.clear()
        self._local.unlink_payloads()

    def publish(self, manifest: bytes, number: int) -> BucketGeneration:
        """Upload what is new, then make it visible as generation `number`, in one step.

        Raises:
            ConflictError: there is a generation of that number, or was; or the version was removed
                meanwhile. The staging stays as it was.
            ExhaustedError, StorageError: nobody can tell whether it was published; the staging
                stays as it was, but is uploaded anew.
        """
        self._upload()
        places = {**self._referred, **self._uploaded}
        try:
            made = self._publishing.publish(
                manifest, number, {"/".join(path): ident for path, ident in places.items()}
            )
        except ConflictError:
            raise
        except SealcarError:
            # it may be there all the same, and then needs these: if not, a prune finds them
            self._uploaded.clear()
            raise
        self._uploaded.clear()
        # it is published whatever becomes of what is left here
        with suppress(SealcarError):
            self._local.discard()
        return made

    def discard(self) -> None:
        """Remove everything; fine if it was published or discarded before."""
        idents = list(self._uploaded.values())
        self._uploaded.clear()
        try:
            self._local.discard()
        finally:
            self._publishing.drop(idents)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.discard()

    def _refer(self, source: Generation, path: _Path) -> bool:
        of = self._publishing.of
        if not isinstance(source, BucketGeneration) or source.of != of:
            return False
        self._refuse_referred(path)
        if path in self._local.files():
            raise AlreadyExistsError(f"{shown('/'.join(path))} exists already")
        self._referred[path] = source.ident(path)
        return True

    def _note_copy(self, source: Generation, path: _Path) -> None:
        if isinstance(source, BucketGeneration):
            self._copied[path] = source.of.payload(source.ident(path))

    def _refuse_referred(self, path: _Path) -> None:
        if path in self._referred:
            raise AlreadyExistsError(f"{shown('/'.join(path))} exists already")

    def _upload(self) -> None:
        """Upload every file that wasn't, some at a time."""
        missing = [path for path in self._local.files() if path not in self._uploaded]
        with ThreadPoolExecutor(_AT_ONCE, thread_name_prefix="upload") as pool:
            try:
                for path, ident in pool.map(self._upload_one, missing):
                    self._uploaded[path] = ident
            except BaseException:
                pool.shutdown(cancel_futures=True)
                raise

    def _upload_one(self, path: _Path) -> tuple[_Path, str]:
        if path in self._copied:
            # removed since it was copied here: then it goes back from here
            with suppress(NotFoundError):
                return path, self._publishing.copy(self._copied[path])
        fd = self._local.open_file(path)
        try:
            return path, self._publishing.upload(fd)
        finally:
            os.close(fd)
