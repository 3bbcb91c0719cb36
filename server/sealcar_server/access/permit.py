"""A decision that holds for as long as the policy says so: what a running transfer stands on."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Final

from sealcar.errors import DeniedError

if TYPE_CHECKING:
    from collections.abc import Callable

    from sealcar_server.access.policy import Right, Rules
    from sealcar_server.access.principal import Principal

RENEWED_AFTER: Final = 0.5  # seconds between two questions for the key


class Permit:
    """A right that was given, and may be taken back. Cheap to check as often as one likes.

    Args:
        rules: decide, now as before.
        principal, right, package, component: what was decided.
    """

    def __init__(
        self, rules: Rules, principal: Principal, right: Right, package: str, component: str = ""
    ) -> None:
        self._rules = rules
        self._asked = (principal, right, package, component)
        self._given_in = self._good_in = rules.generation
        self._also: Callable[[], None] | None = None
        self._ask: Callable[[], None] | None = None
        self._asked_at = 0.0

    def bind(self, also: Callable[[], None]) -> None:
        """Have this called at every check, too: what it raises ends the transfer."""
        self._also = also

    def bind_key(self, ask: Callable[[], None]) -> None:
        """Have this called at every renewal: it asks for the key that the transfer uses."""
        self._ask = ask
        self._asked_at = time.monotonic()

    def renew(self) -> None:
        """Return while the key may be used, though the transfer has it already. May block.

        Who is slow could else use a key long after its lifetime. Asked for is it as any key is: it
        costs nothing while that is kept.

        Raises:
            KeyRefusedError, KeyUnavailableError: it can't be had any more.
        """
        now = time.monotonic()
        if self._ask is not None and now - self._asked_at >= RENEWED_AFTER:
            self._asked_at = now
            self._ask()

    def check(self) -> None:
        """Return while the right stands.

        Raises:
            DeniedError: the grant was taken away.
            SealcarError: what the permit is bound to doesn't stand any more.
        """
        if self._also is not None:
            self._also()
        generation = self._rules.generation
        if generation == self._good_in:
            return
        if not self._rules.stands(self._given_in, *self._asked):
            raise DeniedError("the grant was taken away")
        self._good_in = generation
