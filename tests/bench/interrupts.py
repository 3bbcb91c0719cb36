"""An interrupt never comes between the start of a process and the moment when we know of it."""

from __future__ import annotations

import signal
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator
    from types import FrameType


class _Interrupts:
    """SIGINT and SIGTERM as KeyboardInterrupt, but not while they are held."""

    def __init__(self) -> None:
        self._held = self._came = False

    def take(self) -> None:
        """Handle both from now on."""
        for each in (signal.SIGINT, signal.SIGTERM):
            signal.signal(each, self._handle)

    @contextmanager
    def held(self) -> Iterator[None]:
        """Let one that comes meanwhile wait until the end of the block."""
        self._held = True
        try:
            yield
        finally:
            self._held = False
            if self._came:
                self._came = False
                raise KeyboardInterrupt

    def _handle(self, _number: int, _frame: FrameType | None) -> None:
        if self._held:
            self._came = True
        else:
            raise KeyboardInterrupt


_interrupts = _Interrupts()
take, held = _interrupts.take, _interrupts.held
