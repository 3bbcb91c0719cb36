"""Makes another version the one that an empty version means."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sealcar import names
from sealcar.errors import InvalidRequestError
from sealcar_server.access.audit.trail import UNAUDITED, Trail
from sealcar_server.access.policy import Right
from sealcar_server.service.failing import during

if TYPE_CHECKING:
    from sealcar_server.access.policy import Rules
    from sealcar_server.access.principal import Principal
    from sealcar_server.service.opening import Opener
    from sealcar_server.service.pointer import Pointers
    from sealcar_server.service.turns import Turns


class Choosing:
    """Safe to share between threads.

    Args:
        policy: decides who may.
        opener: opens the version before anything points at it.
        pointers: are moved.
        turns: shared with whoever publishes and removes.
        trail: accounts for every decision.
    """

    def __init__(
        self,
        policy: Rules,
        opener: Opener,
        pointers: Pointers,
        *,
        turns: Turns,
        trail: Trail = UNAUDITED,
    ) -> None:
        self._policy, self._opener, self._pointers = policy, opener, pointers
        self._turns, self._trail = turns, trail

    def choose(self, principal: Principal, name: str, version: str) -> str:
        """Make a version the current one; return the one that was it before, or "".

        Raises:
            InvalidRequestError: no version is named.
            NotFoundError: there is none, or none that the caller may know of.
            DeniedError: the caller may not manage the package.
            DamagedError, KeyRefusedError, KeyUnavailableError: the version can't be opened, or
                the pointer that there is isn't authentic: it stands.
            WrongStateError, ExhaustedError, StorageError: the pointer can't be written.
        """
        place: dict[str, str | int] = {"package": name, "version": version}
        with (
            during("choose", **place),
            self._trail.decision(principal, Right.MANAGE, **place, step="set-current") as entry,
        ):
            names.store_name(name)
            entry.rule = self._policy.require(principal, Right.MANAGE, name)
            if not version:
                raise InvalidRequestError("name the version that is to be the current one")
            # so that it isn't removed between the look at it and the pointing
            with self._turns.of(name, version):
                opened = self._opener.open(name, version)
                number = opened.place.number
                entry.resolved(version, number)
                with self._pointers.moving(name, version, number) as previous:
                    return previous
