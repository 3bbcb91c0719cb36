"""Takes generations out of a bucket, and what interrupted writers left there.

What leads to others goes first: the manifest, then what only it referred to. A manifest isn't
deleted but emptied, so that the number stays taken: a daemon that prepared a generation of this
number for long must not succeed now that others have published it, more, and pruned it.
"""

from __future__ import annotations

import time
from collections import Counter
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Final

from sealcar.errors import DamagedError, NotFoundError
from sealcar_server.store.bucket.keys import Version
from sealcar_server.store.bucket.own_objects import use_of
from sealcar_server.store.generation import MAX_MANIFEST

if TYPE_CHECKING:
    from collections.abc import Iterator

    from sealcar_server.store.bucket.generation import Parts
    from sealcar_server.store.bucket.listings import Listings, VersionList
    from sealcar_server.store.bucket.numbers import Numbers
    from sealcar_server.store.bucket.objects import Listed
    from sealcar_server.store.usage import FileUse

_SWEEPS: Final = 8


class Removing:
    """Safe to share between threads.

    Args:
        parts, listings, numbers: of the store.
        abandoned: seconds after which what nothing refers to was left by somebody who died.
    """

    def __init__(
        self, parts: Parts, listings: Listings, numbers: Numbers, *, abandoned: float
    ) -> None:
        self._parts, self._listings, self._numbers = parts, listings, numbers
        self._abandoned = abandoned

    @contextmanager
    def generation(self, of: Version, number: int) -> Iterator[None]:
        """Take out a generation: it is gone inside, what only it referred to is at the end.

        Raises:
            NotFoundError: there is none.
            StorageError: it can't be removed.
        """
        found = self._listings.now(of)
        if number not in found.numbers:
            raise NotFoundError(f"no generation {number}")
        beside = [one.key for one in found.references.get(number, [])]
        own = self._own(of, found, number)
        key = of.manifest(number)
        self._parts.small.put(key, b"", self._parts.objects.write(key, b""))
        self._numbers.changed(of)
        try:
            yield
        finally:
            self._remove([*beside, *(of.payload(ident) for ident in own)])
            self._listings.forget()

    @contextmanager
    def version(self, of: Version) -> Iterator[None]:
        """Take out a whole version; as `generation`.

        What others publish meanwhile goes along if it needs what is removed here. What is a new
        package under the same name stays, and its numbers go on from here.
        """
        found = self._listings.now(of)
        if not found.numbers:
            raise NotFoundError("no such version")
        gone: set[str] = set()
        beside: list[str] = []
        self._empty(of, found, found.numbers, gone, beside)
        try:
            yield
        finally:
            self._remove([*beside, *map(of.payload, sorted(gone))])
            for _ in range(_SWEEPS):
                found = self._listings.now(of)
                late = [number for number in found.numbers if self._payloads(of, number) & gone]
                if not late:
                    break
                beside.clear()
                self._empty(of, found, late, gone, beside)
                self._remove([*beside, *map(of.payload, sorted(gone & found.payloads.keys()))])
            self._listings.forget()

    def _empty(
        self,
        of: Version,
        found: VersionList,
        numbers: list[int],
        gone: set[str],
        beside: list[str],
    ) -> None:
        """Take manifests away, and add what hung on them to what has to go."""
        self._parts.departed(of, max(numbers))
        for number in numbers:
            gone |= self._payloads(of, number)
            beside += [one.key for one in found.references.get(number, [])]
        # the newest one last: until then, those that are older aren't the newest for anybody
        for number in sorted(numbers):
            key = of.manifest(number)
            self._parts.small.put(key, b"", self._parts.objects.write(key, b""))
        self._numbers.changed(of)

    def _payloads(self, of: Version, number: int) -> set[str]:
        """Return the ids of a generation's payloads, as far as that can be told."""
        try:
            return set(self._parts.payloads.of(of, number).values())
        except (DamagedError, NotFoundError):
            return set()

    def usage(self, of: Version, number: int) -> list[FileUse]:
        """Return the objects of a generation, each with the number of generations that have it."""
        found = self._listings.version(of)
        if number not in found.manifests:
            raise NotFoundError(f"no generation {number}")
        links = self._links(of, found)
        beside = [found.manifests[number], *found.references.get(number, [])]
        uses = [use_of(one.key, one.size) for one in beside]
        for ident in set(self._parts.payloads.of(of, number).values()):
            payload = found.payloads.get(ident)
            if payload is not None:
                uses.append(use_of(payload.key, payload.size, links[ident]))
        return uses

    def clean(self, *, only_look: bool) -> list[FileUse]:
        """Remove what nothing refers to and is older than a writer may take; return it."""
        gone: list[Listed] = []
        for name, versions in self._listings.everything().items():
            for version, found in versions.items():
                of = Version(name, version)
                # whose references can't be read keeps what it may refer to
                with suppress(DamagedError, NotFoundError):
                    if self._left(of, found):
                        # a long list is of no one moment: what was published since refers to more
                        gone += self._left(of, self._listings.now(of))
        if gone and not only_look:
            self._remove([one.key for one in gone])
            self._listings.forget()
        return [use_of(one.key, one.size) for one in gone]

    def _left(self, of: Version, found: VersionList) -> list[Listed]:
        links = self._links(of, found)
        newest = max(found.numbers, default=0)
        left = [one for ident, one in found.payloads.items() if not links[ident]]
        # numbers that were used: those above the newest are of a version that is gone as a whole
        left += [
            one
            for number, one in found.manifests.items()
            if not one.size and (number < newest or not newest)
        ]
        for number, beside in found.references.items():
            left += self._losers(of, number, beside) if number in found.numbers else beside
        oldest = time.time() - self._abandoned
        return [one for one in left if one.modified < oldest]

    def _losers(self, of: Version, number: int, beside: list[Listed]) -> list[Listed]:
        """Return references whose manifest was refused because another one was there."""
        if len(beside) == 1:
            return []
        manifest = self._parts.small.kept(of.manifest(number), MAX_MANIFEST).data or b""
        own = of.references(number, manifest)
        return [one for one in beside if one.key != own]

    def _own(self, of: Version, found: VersionList, number: int) -> set[str]:
        """Return the ids of payloads that no other generation has; none if nobody can tell."""
        try:
            links = self._links(of, found)
            mine = set(self._parts.payloads.of(of, number).values())
        except (DamagedError, NotFoundError):
            return set()
        return {ident for ident in mine if links[ident] == 1}

    def _links(self, of: Version, found: VersionList) -> Counter[str]:
        """Count the generations that have each payload."""
        links: Counter[str] = Counter()
        for number in found.numbers:
            links.update(set(self._parts.payloads.of(of, number).values()))
        return links

    def _remove(self, keys: list[str]) -> None:
        self._parts.objects.remove(keys)
        for key in keys:
            self._parts.small.put(key, None)
            self._parts.payloads.forget(key)
