"""Makes a generation of a version visible in a bucket: one conditional write of its manifest."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import structlog

from sealcar.errors import ConflictError, NotFoundError, SealcarError
from sealcar_server.store.bucket import references
from sealcar_server.store.bucket.generation import BucketGeneration
from sealcar_server.store.bucket.keys import new_id
from sealcar_server.store.own_files import MAX_SIZE

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from sealcar_server.store.bucket.generation import Parts
    from sealcar_server.store.bucket.keys import Version
    from sealcar_server.store.bucket.numbers import Numbers

_log: Final = structlog.get_logger("sealcar.store")


@dataclass(frozen=True)
class Publishing:
    """Of one version; safe to share between threads.

    Attributes:
        parts: of the store.
        numbers: learn of what is published.
        of: the version.
    """

    parts: Parts
    numbers: Numbers
    of: Version

    def upload(self, fd: int) -> str:
        """Upload a payload and return its id; raises as `Objects.upload` does."""
        ident = new_id()
        self.parts.objects.upload(self.of.payload(ident), fd)
        return ident

    def copy(self, key: str) -> str:
        """Have another version's payload be one of this, and return its id; as `Objects.copy`."""
        ident = new_id()
        self.parts.objects.copy(key, self.of.payload(ident))
        return ident

    def drop(self, idents: Sequence[str]) -> None:
        """Remove uploaded payloads that no generation has; what can't be removed now is later."""
        self._remove([self.of.payload(ident) for ident in idents])

    def publish(self, manifest: bytes, number: int, places: Mapping[str, str]) -> BucketGeneration:
        """Write a generation's references, then its manifest, if that number was never used.

        Args:
            manifest: its bytes.
            number: of the generation.
            places: ids of payloads that are there, by their paths.

        Raises:
            ConflictError: there is a generation of that number, or was; or the version, or what it
                refers to, was removed meanwhile.
            ExhaustedError, StorageError: nobody can tell whether it was published.
        """
        beside = self.of.references(number, manifest)
        key = self.of.manifest(number)
        if self._is_there(number):
            # perhaps by this very manifest, as a sealed export's: its references stay what they are
            raise self._late(number)
        self.parts.objects.write(beside, references.serialise(places))
        try:
            etag = self.parts.objects.create(key, manifest)
        except ConflictError:
            self._remove([beside])
            raise self._late(number) from None
        self.parts.small.put(key, manifest, etag)
        self._stay(number, [key, beside], places)
        self.numbers.published(self.of, number)
        return BucketGeneration(self.parts, self.of.name, self.of.version, number)

    def _late(self, number: int) -> ConflictError:
        self.numbers.changed(self.of)
        self.parts.small.forget(self.of.manifest(number))
        return ConflictError(f"generation {number} was published by another")

    def _stay(self, number: int, keys: list[str], places: Mapping[str, str]) -> None:
        """Take it back if the version was removed or shredded at the same time elsewhere."""
        if self.parts.small.now(self.of.tombstone, MAX_SIZE).data is not None or (
            number > 1 and not self._is_there(number - 1) and self._lacks(places)
        ):
            # somebody may have seen it; but nobody signs what only the bucket says
            self.parts.departed(self.of, number, max(number - 1, 1))
            self._remove(keys[:1])
            self.parts.small.put(keys[0], None)
            self._remove(keys[1:])
            self.numbers.changed(self.of)
            raise ConflictError("the version was removed meanwhile")

    def _is_there(self, number: int) -> bool:
        try:
            return self.parts.objects.size(self.of.manifest(number))[0] > 0
        except NotFoundError:
            return False

    def _lacks(self, places: Mapping[str, str]) -> bool:
        for ident in set(places.values()):
            try:
                self.parts.objects.size(self.of.payload(ident))
            except NotFoundError:
                return True
        return False

    def _remove(self, keys: Sequence[str]) -> None:
        try:
            self.parts.objects.remove(keys)
        except SealcarError as error:
            _log.warning("an unfinished generation stays in the bucket", reason=error.message)
