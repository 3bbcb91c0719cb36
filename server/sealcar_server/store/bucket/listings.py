"""Which packages, versions and generations a bucket has: from lists of it, remembered for a while.

A list of the whole store serves whoever asks for all names and then for what is below each.
"""

from __future__ import annotations

import threading
import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from sealcar_server.store.bucket.keys import Version, current, parsed
from sealcar_server.store.generation import MAX_MANIFEST
from sealcar_server.store.own_files import MAX_SIZE
from sealcar_server.store.places import fits, store_package, store_version

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from sealcar_server.store.bucket.objects import Listed, Objects
    from sealcar_server.store.bucket.small import SmallObjects

_KEPT: Final = 64  # lists of single packages and versions


@dataclass
class VersionList:
    """What there is of one version.

    Attributes:
        manifests: by the number of the generation; an empty one: it was removed.
        references: by the number of the generation.
        payloads: by their id.
    """

    manifests: dict[int, Listed] = field(default_factory=dict)
    references: dict[int, list[Listed]] = field(default_factory=dict)
    payloads: dict[str, Listed] = field(default_factory=dict)

    @property
    def numbers(self) -> list[int]:
        """Of the generations that are there, newest first."""
        return sorted((n for n, found in self.manifests.items() if found.size), reverse=True)


_Lists = dict[str, dict[str, VersionList]]


class Listings:
    """Safe to share between threads; what it returns isn't changed. It raises as `Objects.listed`.

    Args:
        objects: of the bucket.
        small: learn from lists what is unchanged.
        refresh: seconds after which a list is asked for again.
    """

    def __init__(self, objects: Objects, small: SmallObjects, refresh: float) -> None:
        self._objects, self._small, self._refresh = objects, small, refresh
        self._lock = threading.Lock()
        self._known: dict[str, tuple[float, _Lists]] = {}
        self._changes = 0

    def everything(self) -> Mapping[str, Mapping[str, VersionList]]:
        """Return what there is of each version by its name, of each package by its name."""
        return self._get("")

    def package(self, name: str) -> Mapping[str, VersionList]:
        """Return what there is of each version of a package."""
        return self._get("", name).get(name, {})

    def version(self, of: Version) -> VersionList:
        """Return what there is of a version."""
        found = self._get("", of.name, of.prefix)
        return found.get(of.name, {}).get(of.version, VersionList())

    def known(self, of: Version) -> VersionList | None:
        """Return what a list that is there says of a version; None: there is none."""
        lists = self._fresh("", of.name, of.prefix)
        if lists is None:
            return None
        return lists.get(of.name, {}).get(of.version, VersionList())

    def small_ones(self, names: Iterable[str]) -> Iterator[tuple[str, int]]:
        """Yield the keys of pointers and newest manifests of packages, each with its limit."""
        for name in names:
            yield current(name), MAX_SIZE
            for version, found in self.package(name).items():
                if found.numbers:
                    yield Version(name, version).manifest(found.numbers[0]), MAX_MANIFEST

    def now(self, of: Version) -> VersionList:
        """Return what there is of a version now."""
        return self._ask(of.prefix).get(of.name, {}).get(of.version, VersionList())

    def forget(self) -> None:
        """Ask the next time: something was changed."""
        with self._lock:
            self._known.clear()
            self._changes += 1

    def _get(self, *prefixes: str) -> _Lists:
        """Return a fresh list of one of these; ask for the last one if there is none."""
        found = self._fresh(*prefixes)
        return self._ask(prefixes[-1]) if found is None else found

    def _fresh(self, *prefixes: str) -> _Lists | None:
        oldest = time.monotonic() - self._refresh
        with self._lock:
            for prefix in prefixes:
                at, found = self._known.get(prefix, (0.0, None))
                if found is not None and at > oldest:
                    return found
        return None

    def _ask(self, prefix: str) -> _Lists:
        at, changes = time.monotonic(), self._changes
        listed = self._objects.listed(prefix)
        self._small.confirm(listed, at)
        found = _sorted(listed)
        with self._lock:
            # one that was begun before a change may lack it
            if changes == self._changes:
                self._known[prefix] = (at, found)
                while len(self._known) > _KEPT:
                    del self._known[next(iter(self._known))]
        return found


def _sorted(listed: Iterable[Listed]) -> _Lists:
    """Sort objects by what they are of; what a store doesn't write is left out."""
    found: _Lists = {}
    for one in listed:
        key = parsed(one.key)
        if key is None or not _fits(key.of):
            continue
        of = found.setdefault(key.of.name, {}).setdefault(key.of.version, VersionList())
        if key.payload:
            of.payloads[key.payload] = one
        elif key.is_manifest:
            of.manifests[key.number] = one
        else:
            of.references.setdefault(key.number, []).append(one)
    return found


def _fits(of: Version) -> bool:
    return fits(of.name, store_package) and fits(of.version, store_version)
