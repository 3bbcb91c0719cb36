"""Opens a package for a caller: asks the policy first, and tells the trail what became of it."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING

from sealcar import names
from sealcar_server.access.audit.trail import UNAUDITED, Trail
from sealcar_server.service.failing import during

if TYPE_CHECKING:
    from collections.abc import Iterator

    from sealcar_server.access.policy import Right, Rules
    from sealcar_server.access.principal import Principal
    from sealcar_server.service.opened import OpenedPackage
    from sealcar_server.service.opening import Opener


class Entrance:
    """Safe to share between threads.

    Args:
        policy: decides who may.
        opener: opens generations.
        trail: accounts for every decision.
    """

    def __init__(self, policy: Rules, opener: Opener, trail: Trail = UNAUDITED) -> None:
        self._policy, self._opener, self._trail = policy, opener, trail

    @contextmanager
    def enter(
        self, principal: Principal, right: Right, place: tuple[str, str, int]
    ) -> Iterator[OpenedPackage]:
        """Give a generation, authenticated; what happens inside is part of the decision.

        Args:
            principal: who asks.
            right: that he needs on the whole package.
            place: name, version (empty: the current one), generation (0: the newest).

        Raises:
            NotFoundError: there is none, or none that the caller may know of.
            DeniedError: the caller lacks the right.
            DamagedError, KeyRefusedError, KeyUnavailableError: it can't be believed.
        """
        name, version, generation = place
        asked: dict[str, str | int] = {"package": name, "version": version}
        asked["generation"] = generation
        with self._trail.decision(principal, right, **asked) as entry:
            with during("open", **asked):
                names.store_name(name)
                entry.rule = self._policy.require(principal, right, name)
                opened = self._opener.open(name, version, generation)
                entry.resolved(opened.place.version, opened.place.number)
                entry.used(opened.record.kek_alias, opened.record.kek_version)
            yield opened
