"""Stands before the policy: what an operator has closed, no grant opens."""

from __future__ import annotations

import threading
import time
from typing import TYPE_CHECKING, Final

from sealcar.errors import LockedError
from sealcar_server.access.policy import Right
from sealcar_server.store.area import read_only

if TYPE_CHECKING:
    from collections.abc import Iterable

    from sealcar.errors import SealcarError
    from sealcar_server.access.policy import Rules
    from sealcar_server.access.principal import Principal

_CHANGING: Final = {Right.WRITE, Right.IMPORT, Right.MANAGE, Right.RESEAL}
_REMEMBERED: Final = 120.0  # seconds; a transfer that its client leaves waiting ends sooner


class Gate:
    """Decides as the policy does while it is open; then nothing but listing is allowed.

    A transfer under way checks its permit, which falls when the gate closes, and when what it is
    about is ended after it was given.

    Args:
        rules: the policy.
        locked: closed from the start.
        read_only: nothing that changes the store is allowed, to anybody.
    """

    def __init__(self, rules: Rules, *, locked: bool = False, read_only: bool = False) -> None:
        self._rules, self._read_only = rules, read_only
        self._lock = threading.Lock()
        self._changes = 0
        self._locked = locked
        self._ended: dict[str, tuple[float, int, SealcarError]] = {}

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

    def end(self, packages: Iterable[str], why: SealcarError) -> None:
        """Let the permits fall that were given on these packages so far."""
        with self._lock:
            now = time.monotonic()
            kept = {name: one for name, one in self._ended.items() if now - one[0] < _REMEMBERED}
            self._changes += 1
            self._ended = {**kept, **dict.fromkeys(packages, (now, self.generation, why))}

    def allows(self, principal: Principal, right: Right, package: str, component: str = "") -> bool:
        """Tell whether a grant allows it.

        Raises:
            LockedError: the daemon is locked.
            WrongStateError: the store is read-only.
        """
        self._refuse(right)
        return self._rules.allows(principal, right, package, component)

    def stands(
        self, since: int, principal: Principal, right: Right, package: str, component: str = ""
    ) -> bool:
        """Tell whether what was allowed in an earlier generation is allowed still.

        Raises:
            LockedError, WrongStateError: as `allows`.
            SealcarError: what `end` was told since.
        """
        self.refuse_ended(since, package)
        return self.allows(principal, right, package, component)

    def refuse_ended(self, since: int, package: str) -> None:
        """Raise what `end` was told of a package since a generation, if anything."""
        ended = self._ended.get(package)
        if ended is not None and since < ended[1]:
            why = ended[2]
            raise type(why)(why.message, retry_after=why.retry_after)

    def require(self, principal: Principal, right: Right, package: str, component: str = "") -> str:
        """Return the name of the grant that allows it.

        Raises:
            LockedError: the daemon is locked.
            WrongStateError: the store is read-only.
            DeniedError, NotFoundError: as the policy says.
        """
        # whoever may not know of a package hears that first
        grant = self._rules.require(principal, right, package, component)
        self._refuse(right)
        return grant

    def require_even_locked(self, principal: Principal, right: Right, package: str) -> str:
        """Return the grant for what may be tried without a key; raises as the policy does."""
        return self._rules.require(principal, right, package)

    def _refuse(self, right: Right) -> None:
        if self._locked and right is not Right.LIST:
            raise locked()
        if self._read_only and right in _CHANGING:
            raise read_only()


def locked() -> LockedError:
    """Return the error for whatever needs a key while there is none."""
    return LockedError("the daemon is locked: an operator has to use `sealcar unlock`")
