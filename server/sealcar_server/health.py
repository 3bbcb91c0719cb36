"""Whether the daemon lives, and whether it is any use to ask it now."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Callable

_SILENCE: Final = 30.0  # seconds; the main thread beats about once a second


class Health:
    """What probes and the service manager are told. Any thread may ask.

    Args:
        working: tells whether the threads that serve are there.
        locked: tells whether an operator keeps every key away.
        silence: seconds without a beat after which it is taken for dead.

    Attributes:
        draining: it ends, and takes no new work.
    """

    def __init__(
        self,
        working: Callable[[], bool],
        locked: Callable[[], bool],
        *,
        silence: float = _SILENCE,
    ) -> None:
        self._working, self._locked, self._silence = working, locked, silence
        self.draining = False
        self.beat()

    def beat(self) -> None:
        """Note that the main thread goes round."""
        self._beat = time.monotonic()

    @property
    def live(self) -> bool:
        """Whether to let it be: False asks for a restart."""
        return time.monotonic() - self._beat < self._silence and self._working()

    @property
    def ready(self) -> bool:
        """Whether requests that need a key are worth sending."""
        return self.live and not self.draining and not self._locked()
