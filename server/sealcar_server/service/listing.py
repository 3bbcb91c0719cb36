"""Which packages there are. Nothing of it is authenticated, since no key is asked for."""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import islice
from typing import TYPE_CHECKING, Final

from sealcar.errors import DamagedError, NotFoundError, StorageError
from sealcar_server.access.audit.trail import UNAUDITED, Trail
from sealcar_server.access.policy import Right
from sealcar_server.sealing import agreement
from sealcar_server.service.by_content import ByContent
from sealcar_server.service.failing import during
from sealcar_server.service.finding import find, record_in
from sealcar_server.service.summaries import summarise
from sealcar_server.service.values import PackageSummary

if TYPE_CHECKING:
    from collections.abc import Iterator

    from sealcar_server.access.policy import Rules
    from sealcar_server.access.principal import Principal
    from sealcar_server.service.finding import Found
    from sealcar_server.service.pointer import Pointers
    from sealcar_server.store.generation import Generation
    from sealcar_server.store.interface import Store

MAX_PAGE: Final = 1000
_AT_ONCE: Final = 128  # packages that a bucket is asked about together


@dataclass(frozen=True)
class Only:
    """What a listing is narrowed to.

    Attributes:
        current: versions that an empty version means.
        component: packages with a component of this name; empty: all.
        ep: packages with a variant for this execution provider, of that component if both are
            asked for; empty: all.
    """

    current: bool = False
    component: str = ""
    ep: str = ""


EVERYTHING: Final = Only()


class Listing:
    """Safe to share between threads.

    Args:
        policy: decides who may.
        store: where packages lie.
        pointers: which versions are current.
        trail: accounts for every decision.
    """

    def __init__(
        self, policy: Rules, store: Store, pointers: Pointers, trail: Trail = UNAUDITED
    ) -> None:
        self._policy, self._store, self._pointers, self._trail = policy, store, pointers, trail
        # to read manifests takes the larger part of a listing, and Python's lock from other threads
        self._summaries = ByContent(_summary_in)

    def list(
        self,
        principal: Principal,
        prefix: str = "",
        after: tuple[str, str] = ("", ""),
        limit: int = MAX_PAGE,
        *,
        only: Only = EVERYTHING,
    ) -> list[PackageSummary]:
        """Return what the caller may list, by name, then version, of what follows `after`.

        A package that can't be read is listed with zeros, unless something of it is asked for.

        Raises:
            StorageError: the store can't be read.
        """
        limit = min(limit or MAX_PAGE, MAX_PAGE)
        found: list[PackageSummary] = []
        with (
            during("list"),
            self._trail.decision(principal, Right.LIST, prefix=f"{prefix}*") as entry,
        ):
            entry.rule = "each package by itself"
            for name, version in self._places(principal, prefix, after):
                if len(found) == limit:
                    break
                summary = self._summary(principal, name, version, only)
                if summary is not None:
                    found.append(summary)
        return found

    def _places(
        self, principal: Principal, prefix: str, after: tuple[str, str]
    ) -> Iterator[tuple[str, str]]:
        allowed = (
            name
            for name in self._store.names()
            if name >= after[0]
            and name.startswith(prefix)
            and self._policy.allows(principal, Right.LIST, name)
        )
        while some := list(islice(allowed, _AT_ONCE)):
            self._store.prepare(some)
            for name in some:
                places = ((name, version) for version in self._store.versions(name))
                yield from (place for place in places if place > after)

    def _summary(
        self, principal: Principal, name: str, version: str, only: Only
    ) -> PackageSummary | None:
        current = self._pointers.claimed(name) == version
        if only.current and not current:
            return None
        number = 0
        try:
            number = self._store.newest(name, version)
            summary = self._made(principal, self._place(name, version, number), only)
        except (DamagedError, NotFoundError, StorageError):
            unreadable = PackageSummary(name, version, number, current, 0, 0, 0, 0)
            return None if only.component or only.ep else unreadable
        if summary is None:
            return None
        # the place is believed, not the record: it hasn't been authenticated
        return replace(summary, name=name, version=version, generation=number, current=current)

    def _place(self, name: str, version: str, number: int) -> Generation:
        if not number:
            raise NotFoundError("no complete generation")
        return self._store.place(name, version, number)

    def _made(self, principal: Principal, place: Generation, only: Only) -> PackageSummary | None:
        if not only.component and not only.ep:
            return self._summaries.of(place.manifest())
        found = find(place)
        if not self._has(principal, found, only):
            return None
        return summarise(found.record, current=False)

    def _has(self, principal: Principal, found: Found, only: Only) -> bool:
        """Tell whether a package has what is asked for, in components that the caller may see."""
        name = found.place.name
        wanted = {
            part.component
            for part in found.record.components
            if only.component in ("", part.component)
            and self._policy.allows(principal, Right.LIST, name, part.component)
        }
        if not only.ep:
            return not only.component or bool(wanted)
        package = found.opened(agreement.Differences())
        return any(
            package.body(one.component, one.variant).get("ep") == only.ep
            for one in found.record.variants
            if one.component in wanted
        )


def _summary_in(manifest: bytes) -> PackageSummary:
    return summarise(record_in(manifest), current=False)
