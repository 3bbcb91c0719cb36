"""Commands that have child processes end as on Ctrl-C when they are told to end."""

from __future__ import annotations

import signal
import sys
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator
    from types import FrameType


@contextmanager
def terminable() -> Iterator[None]:
    """Unwind on SIGTERM as on Ctrl-C, so that every child process is ended."""

    def stop(signum: int, _frame: FrameType | None) -> None:
        sys.exit(128 + signum)

    before = signal.signal(signal.SIGTERM, stop)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)
