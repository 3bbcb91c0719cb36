"""The signals by which the daemon is told to stop, or to read its policy again."""

from __future__ import annotations

import signal
import threading
from queue import SimpleQueue
from typing import Final

_SIGNALS: Final = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)


def catch() -> SimpleQueue[int]:
    """Return the signals as they come. To be called before any other thread starts.

    A thread waits for them, and without a limit: CPython's sigtimedwait returns what nobody filled
    in, instead of None, if the process was stopped for longer than the time given, as every process
    is while its machine sleeps.
    """
    signal.pthread_sigmask(signal.SIG_BLOCK, _SIGNALS)
    received: SimpleQueue[int] = SimpleQueue()

    def take() -> None:
        while True:
            received.put(signal.sigwait(_SIGNALS))

    threading.Thread(target=take, name="signals", daemon=True).start()
    return received
