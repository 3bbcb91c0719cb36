"""Stands before the policy: what an operator has closed, no grant opens."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING

from sealcar.errors import LockedError
from sealcar_server.access.policy import Right

if TYPE_CHECKING:
    from sealcar_server.access.policy import Rules
    from sealcar_server.access.principal import Principal


class Gate:
    """Decides as the policy does while it is open; then nothing but listing is allowed.

    A transfer under way checks its permit, which falls when the gate closes.

    Args:
        rules: the policy.
        locked: closed from the start.
    """

    def __init__(self, rules: Rules, *, locked: bool = False) -> None:
        self._rules = rules
        self._lock = threading.Lock()
        self._changes = 0
        self._locked = locked

    @property
    def generation(self) -> int:
        """Different whenever another answer is possible: both parts only grow."""
        return self._rules.generation + self._changes

    @property
    def locked(self) -> bool:
        """Whether it is closed."""
        return self._locked

    def set(self, *, locked: bool) -> None:
        """Close or open it."""
        with self._lock:
            self._locked = locked
            self._changes += 1

    def allows(self, principal: Principal, right: Right, package: str, component: str = "") -> bool:
        """Tell whether a grant allows it.

        Raises:
            LockedError: the daemon is locked.
        """
        self._refuse(right)
        return self._rules.allows(principal, right, package, component)

    def require(self, principal: Principal, right: Right, package: str, component: str = "") -> str:
        """Return the name of the grant that allows it.

        Raises:
            LockedError: the daemon is locked.
            DeniedError, NotFoundError: as the policy says.
        """
        # whoever may not know of a package hears that first
        grant = self._rules.require(principal, right, package, component)
        self._refuse(right)
        return grant

    def _refuse(self, right: Right) -> None:
        if self._locked and right is not Right.LIST:
            raise locked()


def locked() -> LockedError:
    """Return the error for whatever needs a key while there is none."""
    return LockedError("the daemon is locked: an operator has to use `sealcar unlock`")
