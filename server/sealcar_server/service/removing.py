"""Takes versions, and older generations, out of the store.

Nothing keeps a version from being imported again: its numbers go on where they ended, so that none
is ever used twice. Who is killed on the way leaves it as it was or gone: one rename decides, and
the next start makes what this daemon remembers agree with it.
"""

from __future__ import annotations

from contextlib import ExitStack
from typing import TYPE_CHECKING, Final

import structlog

from sealcar import names
from sealcar.errors import (
    DamagedError,
    InvalidRequestError,
    NotFoundError,
    SealcarError,
    WrongStateError,
)
from sealcar_server.access.audit.trail import UNAUDITED, Trail
from sealcar_server.access.policy import Right, unknown_package
from sealcar_server.service.failing import during
from sealcar_server.service.holding import NO_DOORS, Doors

if TYPE_CHECKING:
    from sealcar_server.access.policy import Rules
    from sealcar_server.access.principal import Principal
    from sealcar_server.service.pointer import Pointers
    from sealcar_server.service.registry import Registry
    from sealcar_server.service.remembering import Remembered
    from sealcar_server.service.rollback import Seen
    from sealcar_server.service.turns import Turns
    from sealcar_server.service.uses import Uses
    from sealcar_server.store.interface import Store

_log: Final = structlog.get_logger("sealcar.store")


class Removing:
    """Safe to share between threads.

    Args:
        policy: decides who may.
        store: where packages lie.
        pointers: which versions are current.
        seen: remembers what was removed.
        turns: shared with whoever publishes.
        registry: of the transactions that end.
        uses: of what is removed end.
        remembered: forgets what is removed.
        trail: accounts for every decision.
    """

    def __init__(  # noqa: PLR0913  (what it works with)
        self,
        policy: Rules,
        store: Store,
        *,
        pointers: Pointers,
        seen: Seen,
        turns: Turns,
        registry: Registry,
        uses: Uses,
        remembered: Remembered,
        trail: Trail = UNAUDITED,
    ) -> None:
        self._policy, self._store, self._pointers, self._seen = policy, store, pointers, seen
        self._turns, self._registry, self._uses = turns, registry, uses
        self._remembered, self._trail = remembered, trail
        self._doors: Doors = NO_DOORS

    def serve_behind(self, doors: Doors) -> None:
        """Let these know when transfers have to end."""
        self._doors = doors

    def settle(self) -> None:
        """Find out what became of removals that a crash cut; what can't be told now waits."""
        for name, version in self._seen.all_leaving():
            try:
                self._settle(name, version)
            except SealcarError as error:
                place = {"package": name, "version": version}
                _log.warning("nobody can tell whether it was removed", **place, reason=str(error))

    def remove(
        self, principal: Principal, name: str, version: str, generation: int = 0
    ) -> tuple[int, ...]:
        """Remove a version, or one generation of it; return the numbers that are gone.

        Transfers and transactions on them end.

        Args:
            principal: who asks.
            name: of the package.
            version: of it; the current one only if it is the last.
            generation: 0: the whole version; else an older one than the newest.

        Raises:
            InvalidRequestError: no version is named.
            NotFoundError: there is none, or none that the caller may know of.
            DeniedError: the caller may not manage the package.
            WrongStateError: it is the current version and there are others, or the newest
                generation, or the store is read-only.
            DamagedError, KeyRefusedError, KeyUnavailableError: nobody can tell which version is
                the current one.
            ExhaustedError, StorageError: it can't be removed, or it is gone but its files aren't.
        """
        place: dict[str, str | int] = {"package": name, "version": version}
        if generation:
            place["generation"] = generation
        with (
            during("remove", **place),
            self._trail.decision(principal, Right.MANAGE, **place, step="remove") as entry,
        ):
            names.store_name(name)
            entry.rule = self._policy.require(principal, Right.MANAGE, name)
            if not version:
                raise InvalidRequestError("name the version that is to be removed")
            names.store_name(version, "version")
            with ExitStack() as cleaning:
                with self._turns.of(name, version):
                    gone = self._take_out(cleaning, name, version, generation)
                entry.what["removed"] = len(gone)
                aborted = self._end(name, version, gone, all_of_it=not generation)
        _log.info("removed", package=name, version=version, generations=len(gone), aborted=aborted)
        return gone

    def _take_out(
        self, cleaning: ExitStack, name: str, version: str, generation: int
    ) -> tuple[int, ...]:
        # what a shredding left is for another one: the tombstone has to stay
        self._pointers.tombstones.refuse(name, version)
        self._store.look_anew(name, version)
        if version not in self._store.versions(name):
            raise unknown_package(name)
        if generation:
            self._refuse_newest(name, version, generation)
            cleaning.enter_context(self._store.taking_out(name, version, generation))
            return (generation,)
        numbers = self._numbers(name, version)
        with self._pointers.staying(name) as current:
            others = [other for other in self._store.versions(name) if other != version]
            if version == current and others:
                raise WrongStateError(
                    f"{version} is the current version: make another one current before,"
                    f" with `sealcar use {name}@{others[-1]}`"
                )
            self._seen.leaving(name, version, max(numbers, default=0))
            try:
                cleaning.enter_context(self._store.taking_out(name, version))
            finally:
                self._settle(name, version)
        return numbers

    def _refuse_newest(self, name: str, version: str, generation: int) -> None:
        if generation not in self._store.numbers(name, version):
            raise NotFoundError(f"no generation {generation}")
        if generation >= self._store.newest(name, version):
            raise WrongStateError(
                f"generation {generation} is the newest: only older ones can be removed singly"
            )

    def _numbers(self, name: str, version: str) -> tuple[int, ...]:
        try:
            return tuple(self._store.numbers(name, version))
        except DamagedError:
            # what nobody can list can be removed all the same
            return ()

    def _settle(self, name: str, version: str) -> None:
        if version in self._store.versions(name):
            self._seen.stays(name, version)
        else:
            self._seen.left(name, version)
        # others may have published more
        self._pointers.departures.settle(name, version)

    def _end(self, name: str, version: str, numbers: tuple[int, ...], *, all_of_it: bool) -> int:
        self._uses.end(name, version, numbers)
        for number in numbers:
            self._remembered.forget((name, version, number))
        aborted = self._registry.revoke(
            lambda one: (
                (one.scope.package, one.scope.version) == (name, version)
                and (all_of_it or one.scope.generation in numbers)
            )
        )
        self._doors.check_permits()
        return aborted
