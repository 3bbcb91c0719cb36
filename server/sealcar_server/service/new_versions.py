"""Versions that are new here: the number that each begins with, and its first generation."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from sealcar import names
from sealcar.errors import AlreadyExistsError, ConflictError, WrongStateError
from sealcar_server.service.admitting import MOST

if TYPE_CHECKING:
    from sealcar_server.service.composing import Composed, Lineage
    from sealcar_server.service.opening import Opener
    from sealcar_server.service.pointer import Pointers
    from sealcar_server.service.rollback import Seen
    from sealcar_server.service.turns import Turns
    from sealcar_server.store.generation import Generation
    from sealcar_server.store.interface import Staging, Store


@dataclass(frozen=True)
class NewVersions:
    """Lets them in; safe to share between threads.

    Attributes:
        store, opener, pointers, seen: of the daemon.
        turns: of all who publish.
    """

    store: Store
    opener: Opener
    pointers: Pointers
    seen: Seen
    turns: Turns

    def number(self, name: str, version: str) -> int:
        """Return the number that a version begins with.

        That is 1, or the one after the last that was seen before the version was removed.

        Raises:
            AlreadyExistsError: it isn't new: the store has it, or had it as far as was seen.
            WrongStateError: one was removed that had hardly any number after it.
            RolledBackError: a pin allows later numbers only.
            DamagedError: the pointer that it would replace isn't authentic.
        """
        number = self._number(name, version)
        self.pointers.refuse_forged(name)
        return number

    def publish(self, staging: Staging, composed: Composed, own: Lineage) -> Generation:
        """Publish the first generation of a version, and make the version the current one.

        Raises:
            AlreadyExistsError: the version isn't new any more.
            ExhaustedError, StorageError: it can't be written.
        """
        name, version = own.name, own.version
        with (
            self.turns.of(name, version),
            self.pointers.moving(name, version, own.generation),
        ):
            self._refuse_overtaken(own)
            try:
                place = staging.publish(composed.manifest, own.generation)
            except ConflictError as error:
                raise _overtaken() from error
            self.opener.saw(place, composed.digest, composed.key)
        return place

    def _refuse_overtaken(self, own: Lineage) -> None:
        # it may have come in another way, under another number, or have been removed again
        try:
            number = self._number(own.name, own.version)
        except AlreadyExistsError as error:
            raise _overtaken() from error
        if number != own.generation:
            raise _overtaken()

    def _number(self, name: str, version: str) -> int:
        names.store_name(version, "version")
        self.pointers.departures.settle(name, version)
        seen = self.seen.package(name, version)
        removed = seen.removed if seen else 0
        buried = self.pointers.tombstones.raised(name, version)
        if self.store.newest(name, version) or buried or (seen and seen.generation > removed):
            raise AlreadyExistsError(
                f"version {version} was imported before: import under another version"
            )
        if removed >= MOST:
            # whoever can write to the store wrote that one
            raise WrongStateError(
                f"generation {removed} of version {version} was removed, and no later one is taken:"
                " import under another version"
            )
        self.opener.pins.check(name, version, removed + 1)
        return removed + 1


def _overtaken() -> AlreadyExistsError:
    return AlreadyExistsError("another import of this version was faster")
