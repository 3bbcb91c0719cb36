"""A decision that holds for as long as the policy says so: what a running transfer stands on."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sealcar.errors import DeniedError

if TYPE_CHECKING:
    from collections.abc import Callable

    from sealcar_server.access.policy import Right, Rules
    from sealcar_server.access.principal import Principal


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
        self._good_in = rules.generation
        self._also: Callable[[], None] | None = None

    def bind(self, also: Callable[[], None]) -> None:
        """Have this called at every check, too: what it raises ends the transfer."""
        self._also = also

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
        if not self._rules.allows(*self._asked):
            raise DeniedError("the grant was taken away")
        self._good_in = generation
