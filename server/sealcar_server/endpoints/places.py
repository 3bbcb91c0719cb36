"""How many connections there may be, of one uid and in all."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Final

from sealcar.errors import ExhaustedError

if TYPE_CHECKING:
    from collections.abc import Callable

    from sealcar_server.access.principal import Principal


class Places:
    """Counted in and out by one thread.

    Args:
        of_one, of_all: the limits.
        on_refused: told who had too many, and "connections".
    """

    def __init__(
        self, of_one: int, of_all: int, on_refused: Callable[[Principal, str], None]
    ) -> None:
        self._of_one: Final = of_one
        self._of_all: Final = of_all
        self._on_refused = on_refused
        self._of_uid: Counter[int] = Counter()

    def enter(self, principal: Principal) -> int:
        """Count one in, and return its uid.

        Raises:
            ExhaustedError: there are too many.
        """
        uid = principal.uid
        own, everybody = self._of_uid[uid], self._of_uid.total()
        if own >= self._of_one or everybody >= self._of_all:
            self._on_refused(principal, "connections")
            raise ExhaustedError(f"uid {uid} has {own} connections, all have {everybody}")
        self._of_uid[uid] += 1
        return uid

    def leave(self, uid: int) -> None:
        """Count one out."""
        self._of_uid[uid] -= 1
        if not self._of_uid[uid]:
            del self._of_uid[uid]
