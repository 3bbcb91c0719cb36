"""Removes packages for good: every generation, and so the wrapped key, from this store.

A tombstone is written first. From then on nobody opens the package, however far the removing comes;
whoever is killed does the rest by doing it again.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from sealcar import names
from sealcar.errors import DamagedError, NotFoundError, StorageError
from sealcar_server.service.finding import find
from sealcar_server.service.tombstones import Tombstone, Tombstones

if TYPE_CHECKING:
    from collections.abc import Iterable

    from sealcar_server.sealing.values import SealRecord
    from sealcar_server.service.remembering import Remembered
    from sealcar_server.service.turns import Turns
    from sealcar_server.store.interface import Store


@dataclass(frozen=True)
class Grave:
    """One version of a package.

    Attributes:
        name, version: which.
        numbers: of the generations that were there, newest first.
        aliases: of the keys that they were under, as far as they could be read.
    """

    name: str
    version: str
    numbers: tuple[int, ...]
    aliases: frozenset[str]


class Shredder:
    """Safe to share between threads.

    Args:
        store: where packages lie.
        tombstones: tell what was shredded.
        turns: shared with whoever publishes.
        remembered: forgets what is removed.
    """

    def __init__(
        self, store: Store, tombstones: Tombstones, *, turns: Turns, remembered: Remembered
    ) -> None:
        self._store, self._tombstones = store, tombstones
        self._turns, self._remembered = turns, remembered

    def bury(self, name: str, version: str) -> list[Grave]:
        """Keep everybody from opening a package; an empty version means all of them.

        It needs none of the package's keys, so that what is damaged or revoked can be shredded.

        Raises:
            InvalidNameError: a name breaks a rule.
            NotFoundError: there is none, or it was shredded before.
            KeyRefusedError, KeyUnavailableError: the store's key can't be had.
            ExhaustedError, StorageError: a tombstone can't be written.
        """
        names.store_name(name)
        there = self._store.versions(name)
        chosen = [names.store_name(version, "version")] if version else there
        if not set(chosen) & set(there):
            raise NotFoundError("there is no such package, or it was shredded before")
        return [self._bury(name, each) for each in chosen]

    def remove(self, graves: Iterable[Grave]) -> None:
        """Remove what was buried; StorageError: not all of it."""
        for grave in graves:
            with self._turns.of(grave.name, grave.version):
                # some may be incomplete, or have been published while the tombstone was written
                self._store.look_anew(grave.name, grave.version)
                for number in self._store.numbers(grave.name, grave.version):
                    self._store.remove(grave.name, grave.version, number)
                for number in grave.numbers:
                    self._remembered.forget((grave.name, grave.version, number))

    def _bury(self, name: str, version: str) -> Grave:
        with self._turns.of(name, version):
            numbers = tuple(self._store.numbers(name, version))
            records = [self._record(name, version, number) for number in numbers]
            if not self._tombstones.raised(name, version):
                package_id = next((one.package_id for one in records if one), b"")
                newest = max(numbers, default=0)
                self._tombstones.raise_(Tombstone(name, version, package_id, newest))
        aliases = frozenset(one.kek_alias for one in records if one)
        return Grave(name, version, numbers, aliases)

    def _record(self, name: str, version: str, number: int) -> SealRecord | None:
        try:
            return find(self._store.generation(name, version, number)).record
        except (DamagedError, NotFoundError, StorageError):
            return None
