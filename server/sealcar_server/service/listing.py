"""Which packages there are. Nothing of it is authenticated, since no key is asked for."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Final

from sealcar.errors import DamagedError, NotAuthenticError, NotFoundError, StorageError
from sealcar_server.access.audit.trail import UNAUDITED, Trail
from sealcar_server.access.policy import Right
from sealcar_server.sealing import record
from sealcar_server.sealing.strictjson import strict_json
from sealcar_server.service.failing import during
from sealcar_server.service.summaries import summarise
from sealcar_server.service.values import PackageSummary

if TYPE_CHECKING:
    from collections.abc import Iterator

    from sealcar_server.access.policy import Rules
    from sealcar_server.access.principal import Principal
    from sealcar_server.service.pointer import Pointers
    from sealcar_server.store.local import LocalStore

MAX_PAGE: Final = 1000


class Listing:
    """Safe to share between threads.

    Args:
        policy: decides who may.
        store: where packages lie.
        pointers: which versions are current.
        trail: accounts for every decision.
    """

    def __init__(
        self, policy: Rules, store: LocalStore, pointers: Pointers, trail: Trail = UNAUDITED
    ) -> None:
        self._policy, self._store, self._pointers, self._trail = policy, store, pointers, trail

    def list(
        self,
        principal: Principal,
        prefix: str = "",
        after: tuple[str, str] = ("", ""),
        limit: int = MAX_PAGE,
    ) -> list[PackageSummary]:
        """Return what the caller may list, by name, then version, of what follows `after`.

        A package that can't be read is listed with zeros.

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
                found.append(self._summary(name, version))
                if len(found) == limit:
                    break
        return found

    def _places(
        self, principal: Principal, prefix: str, after: tuple[str, str]
    ) -> Iterator[tuple[str, str]]:
        for name in self._store.names():
            if name < after[0] or not name.startswith(prefix):
                continue
            if self._policy.allows(principal, Right.LIST, name):
                places = ((name, version) for version in self._store.versions(name))
                yield from (place for place in places if place > after)

    def _summary(self, name: str, version: str) -> PackageSummary:
        current = self._pointers.claimed(name) == version
        number = 0
        try:
            number = self._store.newest(name, version)
            raw = self._store.generation(name, version, number).manifest()
            text, _ = record.open_envelope(strict_json(raw, error=NotAuthenticError))
            summary = summarise(record.parse(text), current=current)
        except (DamagedError, NotFoundError, StorageError):
            return PackageSummary(name, version, number, current, 0, 0, 0, 0)
        # the place is believed, not the record: it hasn't been authenticated
        return replace(summary, name=name, version=version, generation=number)
