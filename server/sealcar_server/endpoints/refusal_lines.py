"""Lines of the log on what was refused: of each caller only so many.

Whoever may connect may be refused as often as he likes, so a line for each refusal would let him
fill the log. The audit log and the metrics stand for all of them.
"""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Final

from sealcar_server.access.rates import Allowances

if TYPE_CHECKING:
    from collections.abc import Callable

_AT_ONCE: Final = 100
_A_SECOND: Final = 1


class RefusalLines:
    """Thread-safe. What is left out is counted; the next line, whosever it is, says how many."""

    def __init__(self) -> None:
        self._allowances = Allowances(_A_SECOND, _AT_ONCE)
        self._lock = threading.Lock()
        self._left_out = 0

    def tell(
        self, write: Callable[..., object], account: str, event: str, /, **values: str | int
    ) -> None:
        """Write a line, if there weren't too many.

        Args:
            write: a logger's method.
            account: on whose account it is; empty: nobody knows, all of those share one.
            event: what the line says.
            **values: what else it says.
        """
        with self._lock:
            if self._allowances.take(account):
                self._left_out += 1
                return
            missing, self._left_out = self._left_out, 0
        write(event, **values, **({"left_out": missing} if missing else {}))
