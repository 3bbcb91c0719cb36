"""Whether the daemon lives, and whether it is any use to ask it now."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Final

import structlog

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

_SILENCE: Final = 30.0  # seconds; the main thread beats about once a second
_EVERY: Final = 5.0  # seconds between two questions to a part
_log: Final = structlog.get_logger("sealcar")


class Pulse:
    """Has one part of the daemon show that it goes round, again and again.

    Args:
        part: its name.
        ask: has the part call what it is given, on a thread of its own, when its turn comes.
        silence: seconds without that after which the part is taken for stuck.
    """

    def __init__(
        self, part: str, ask: Callable[[Callable[[], None]], None], silence: float = _SILENCE
    ) -> None:
        self._part, self._ask, self._silence = part, ask, silence
        self._asked: float | None = None
        self._next = 0.0
        self._said = False

    def beat(self) -> None:
        """Ask if the last question was answered; say once that it wasn't. On the main thread."""
        now = time.monotonic()
        if self._asked is None and now >= self._next:
            self._asked, self._next = now, now + _EVERY
            self._ask(self._answered)
        elif self.stuck and not self._said:
            self._said = True
            _log.error("a part of the daemon is stuck", part=self._part, seconds=self._silence)

    @property
    def stuck(self) -> bool:
        """Whether it didn't answer for too long."""
        asked = self._asked
        return asked is not None and time.monotonic() - asked > self._silence

    def _answered(self) -> None:
        self._asked = None
        self._said = False


class Health:
    """What probes and the service manager are told. Any thread may ask.

    Args:
        working: tells whether the threads that serve are there.
        locked: tells whether an operator keeps every key away.
        pulses: of parts whose hanging doesn't show otherwise.
        silence: seconds without a beat after which it is taken for dead.

    Attributes:
        draining: it ends, and takes no new work.
    """

    def __init__(
        self,
        working: Callable[[], bool],
        locked: Callable[[], bool],
        pulses: Sequence[Pulse] = (),
        *,
        silence: float = _SILENCE,
    ) -> None:
        self._working, self._locked, self._silence = working, locked, silence
        self._pulses = pulses
        self.draining = False
        self.beat()

    def beat(self) -> None:
        """Note that the main thread goes round."""
        self._beat = time.monotonic()
        for pulse in self._pulses:
            pulse.beat()

    @property
    def live(self) -> bool:
        """Whether to let it be: False asks for a restart."""
        beats = time.monotonic() - self._beat < self._silence
        return beats and self._working() and not any(pulse.stuck for pulse in self._pulses)

    @property
    def ready(self) -> bool:
        """Whether requests that need a key are worth sending."""
        return self.live and not self.draining and not self._locked()
