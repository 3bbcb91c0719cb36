"""Removes generations that were followed by others, and what crashes left.

Of each version stay the newest generations, and those that are pinned or in use (see `keeping`).
"""

from __future__ import annotations

from contextlib import ExitStack, contextmanager, nullcontext
from dataclasses import dataclass
from itertools import islice
from typing import TYPE_CHECKING, Final

import structlog

from sealcar import names
from sealcar.errors import DamagedError, InvalidRequestError, NotFoundError, SealcarError
from sealcar_server.access.audit.trail import UNAUDITED, Trail
from sealcar_server.access.policy import Right, unknown_package
from sealcar_server.service.failing import during
from sealcar_server.service.index_cleaning import clean_index
from sealcar_server.service.pruned import Pruned

if TYPE_CHECKING:
    from collections.abc import Iterator

    from sealcar_server.access.audit.trail import Entry
    from sealcar_server.access.policy import Rules
    from sealcar_server.access.principal import Principal
    from sealcar_server.service.keeping import Keeping
    from sealcar_server.service.remembering import Remembered
    from sealcar_server.service.turns import Turns
    from sealcar_server.service.uses import Uses
    from sealcar_server.store.interface import Store

KEPT: Final = 2
_AT_ONCE: Final = 64
_log: Final = structlog.get_logger("sealcar.store")


@dataclass(frozen=True)
class Wanted:
    """What may go.

    Attributes:
        name: of a package; empty: all that the caller may manage.
        version: of it; empty: all.
        keep: so many of the newest generations of each version stay; 0: two.
        dry_run: only say what would go.
    """

    name: str = ""
    version: str = ""
    keep: int = 0
    dry_run: bool = False


class Pruning:
    """Safe to share between threads.

    Args:
        policy: decides who may.
        store: where packages lie.
        turns: shared with whoever publishes.
        keeping: tells what stays.
        uses: of what is removed end.
        remembered: forgets what is removed.
        trail: accounts for every decision.
    """

    def __init__(  # noqa: PLR0913  (what it works with)
        self,
        policy: Rules,
        store: Store,
        *,
        turns: Turns,
        keeping: Keeping,
        uses: Uses,
        remembered: Remembered,
        trail: Trail = UNAUDITED,
    ) -> None:
        self._policy, self._store, self._turns = policy, store, turns
        self._keeping, self._uses = keeping, uses
        self._remembered, self._trail = remembered, trail

    def prune(self, principal: Principal, wanted: Wanted) -> Pruned:
        """Remove what may go, at most ten thousand generations of it.

        A package that can't be listed is left out, unless it is the one that was asked for.

        Raises:
            InvalidRequestError: a version without a name.
            NotFoundError: there is no such package, or none that the caller may know of.
            DeniedError: the caller may not manage it.
            WrongStateError: the store is read-only.
            DamagedError, StorageError: not all of it could be removed; it says what was.
        """
        place = {"package": wanted.name, "version": wanted.version}
        done = Pruned()
        with (
            during("prune", **place),
            self._trail.decision(principal, Right.MANAGE, **place, step="prune") as entry,
        ):
            places = list(self._places(principal, wanted, entry))
            with _accounted(entry, wanted, done), during("prune", **place):
                self._all(places, wanted, done)
        return done

    def _all(self, places: list[tuple[str, str]], wanted: Wanted, done: Pruned) -> None:
        for name, version in places:
            try:
                self._version(name, version, wanted, done)
            except (DamagedError, NotFoundError) as error:
                if wanted.version:
                    raise
                _log.warning("a package can't be pruned", error=str(error))
            if not done.room:
                break
        if places:
            # whoever may manage nothing has nothing else removed either
            done.files.update(self._store.clean(only_look=wanted.dry_run))
            done.files.update(clean_index(self._store, only_look=wanted.dry_run))

    def _places(
        self, principal: Principal, wanted: Wanted, entry: Entry
    ) -> Iterator[tuple[str, str]]:
        if wanted.name:
            names.store_name(wanted.name)
            entry.rule = self._policy.require(principal, Right.MANAGE, wanted.name)
            versions = self._store.versions(wanted.name)
            if wanted.version and names.store_name(wanted.version, "version") not in versions:
                versions = []
            if not versions:
                raise unknown_package(wanted.name)
            chosen = [wanted.version] if wanted.version else versions
            yield from ((wanted.name, version) for version in chosen)
            return
        if wanted.version:
            raise InvalidRequestError("name the package whose version it is")
        entry.rule = "each package by itself"
        for name in self._store.names():
            if self._policy.allows(principal, Right.MANAGE, name):
                yield from ((name, version) for version in self._store.versions(name))

    def _version(self, name: str, version: str, wanted: Wanted, done: Pruned) -> None:
        with during("prune", package=name, version=version):
            while self._some(name, version, wanted, done) and not wanted.dry_run:
                pass

    def _some(self, name: str, version: str, wanted: Wanted, done: Pruned) -> bool:
        """Remove as many as others wait for gladly; tell whether there may be more."""
        most = done.room if wanted.dry_run else min(done.room, _AT_ONCE)
        # files are removed when others may publish again
        with ExitStack() as cleaning, self._turns.of(name, version):
            going = self._going(name, version, wanted.keep or KEPT)[:most]
            # what is entered last ends first: the newest one is counted first
            for number in reversed(going):
                cleaning.enter_context(self._taking_out((name, version, number), wanted, done))
                if not wanted.dry_run:
                    self._remembered.forget((name, version, number))
                    self._uses.end(name, version, [number])
        return bool(going)

    @contextmanager
    def _taking_out(
        self, place: tuple[str, str, int], wanted: Wanted, done: Pruned
    ) -> Iterator[None]:
        """Take out a generation as the store does; it counts when its files are gone, too."""
        files = self._store.usage(*place)
        passing: BaseException | None = None
        try:
            with nullcontext() if wanted.dry_run else self._store.taking_out(*place):
                try:
                    yield
                except BaseException as error:
                    passing = error
                    raise
        except BaseException as error:
            # another one's failure; this one was removed all the same
            if error is passing:
                done.add(place, files)
            raise
        done.add(place, files)

    def _going(self, name: str, version: str, keep: int) -> list[int]:
        numbers = self._store.numbers(name, version)
        # each look costs the disk, and those further down change nothing
        whole = (each for each in numbers if self._store.is_complete(name, version, each))
        complete = list(islice(whole, keep + 1))
        if len(complete) <= keep:
            return []
        return [
            number
            for number in numbers
            if number < complete[keep - 1] and not self._keeping.includes(name, version, number)
        ]


@contextmanager
def _accounted(entry: Entry, wanted: Wanted, done: Pruned) -> Iterator[None]:
    """Let audit log, log and whoever asked know what went, however it ends."""
    try:
        yield
    except SealcarError as error:
        if wanted.dry_run or not done.generations:
            raise
        raise type(error)(
            f"{error.message}; {done.told} before that",
            place=error.place,
            retry_after=error.retry_after,
        ) from error
    finally:
        entry.what["removed"] = 0 if wanted.dry_run else len(done.generations)
        if not wanted.dry_run:
            _log.info("pruned", generations=len(done.generations), freed=done.freed)
