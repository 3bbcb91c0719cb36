"""Opens a package for a caller: asks the policy first, and tells the trail what became of it."""

from __future__ import annotations

from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING, Final

from sealcar import names
from sealcar.errors import LockedError
from sealcar_server.access.audit.trail import UNAUDITED, Trail
from sealcar_server.access.policy import Right
from sealcar_server.service.failing import during

if TYPE_CHECKING:
    from collections.abc import Iterator

    from sealcar_server.access.audit.trail import Entry
    from sealcar_server.access.permit import Permit
    from sealcar_server.access.policy import Rules
    from sealcar_server.access.principal import Principal
    from sealcar_server.service.opened import OpenedPackage
    from sealcar_server.service.opening import Opener
    from sealcar_server.service.uses import Uses
    from sealcar_server.store.generation import Generation

_READING: Final = {Right.READ, Right.EXPORT, Right.EXPORT_PLAIN}


class Entrance:
    """Safe to share between threads.

    Args:
        policy: decides who may.
        opener: opens generations.
        uses: are told of what is read.
        trail: accounts for every decision.
    """

    def __init__(self, policy: Rules, opener: Opener, uses: Uses, trail: Trail = UNAUDITED) -> None:
        self._policy, self._opener, self._uses, self._trail = policy, opener, uses, trail

    @contextmanager
    def enter(
        self, principal: Principal, right: Right, place: tuple[str, str, int], **more: str
    ) -> Iterator[OpenedPackage]:
        """Give a generation, authenticated; what happens inside is part of the decision.

        Args:
            principal: who asks.
            right: that he needs on the whole package.
            place: name, version (empty: the current one), generation (0: the newest).
            more: what else is accounted for.

        Raises:
            NotFoundError: there is none, or none that the caller may know of.
            DeniedError: the caller lacks the right.
            DamagedError, KeyRefusedError, KeyUnavailableError: it can't be believed.
        """
        with self._deciding(principal, right, place, **more) as entry:
            yield self.open(right, place, entry)

    def open(self, right: Right, place: tuple[str, str, int], entry: Entry) -> OpenedPackage:
        """Open a generation for whom the policy lets, and tell the trail which it is.

        Args:
            right: that he has.
            place: as for `enter`.
            entry: of the decision.

        Raises:
            NotFoundError: there is none.
            DeniedError: only what is pinned may be read.
            DamagedError, KeyRefusedError, KeyUnavailableError: it can't be believed.
        """
        opened = self._opener.open(*place)
        entry.resolved(opened.place.version, opened.place.number)
        entry.used(opened.record.kek_alias, opened.record.kek_version)
        if right in _READING:
            self._opener.pins.require(opened.place.name, opened.place.version)
        return opened

    def use(self, opened: OpenedPackage) -> None:
        """Note that a generation is in use; NotFoundError if it was removed meanwhile."""
        self._uses.note(opened.place)

    def bind(self, permit: Permit, opened: OpenedPackage) -> None:
        """Let a permit fall with a generation and its key; in use as long as it is checked."""
        permit.bind(partial(self._still, opened.place))
        permit.bind_key(partial(self._opener.ask, opened))

    @contextmanager
    def glance(
        self, principal: Principal, place: tuple[str, str, int]
    ) -> Iterator[tuple[OpenedPackage, bool]]:
        """Give a generation to show, and whether it is authentic: a locked daemon can't tell.

        Args:
            principal: who asks; he needs the right to list the package.
            place: as for `enter`.

        Raises:
            NotFoundError: there is none, or none that the caller may know of.
            DamagedError, KeyRefusedError, KeyUnavailableError: it can't be believed.
        """
        with self._deciding(principal, Right.LIST, place) as entry:
            try:
                found = self.open(Right.LIST, place, entry), True
            except LockedError:
                opened = self._opener.look(*place).agreed()
                entry.resolved(opened.place.version, opened.place.number)
                found = opened, False
            yield found

    @contextmanager
    def _deciding(
        self, principal: Principal, right: Right, place: tuple[str, str, int], **more: str
    ) -> Iterator[Entry]:
        name, version, generation = place
        asked: dict[str, str | int] = {"package": name, "version": version}
        asked["generation"] = generation
        with self._trail.decision(principal, right, **asked, **more) as entry:
            with during("open", **asked):
                names.store_name(name)
                entry.rule = self._policy.require(principal, right, name)
            yield entry

    def _still(self, place: Generation) -> None:
        self._uses.note(place)
        self._opener.pins.check(place.name, place.version, place.number)
