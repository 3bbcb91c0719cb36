"""The thread that moves the bytes of all streams, in turns of their owners.

Copying into and out of the kernel takes as long as decrypting does: on the data socket's own thread
everybody else would wait for it. It begins with the first stream.
"""

from __future__ import annotations

import os
import threading
from typing import TYPE_CHECKING, Final

import structlog

from sealcar_server.endpoints.data_watch import Watch

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable

_log: Final = structlog.get_logger("sealcar.data")
_OURSELVES: Final = object()
_TURNS: Final = 8
_PATIENCE: Final = 60.0


class Mover:
    """Calls what was added for a socket when that can be read or written, as it was armed."""

    def __init__(self) -> None:
        self._watch = Watch()
        self._wakeup = os.eventfd(0, os.EFD_CLOEXEC | os.EFD_NONBLOCK)
        self._stopping = False
        self._thread: threading.Thread | None = None

    def add(self, fd: int, owner: Hashable, call: Callable[[], None]) -> None:
        """Watch a socket once it is armed. On the data socket's thread, as `close`."""
        self._watch.add(fd, owner, call, events=0)
        if self._thread is None:
            self._watch.add(self._wakeup, _OURSELVES, lambda: None)
            self._thread = threading.Thread(target=self._run, name="data-streams", daemon=True)
            self._thread.start()

    def arm(self, fd: int, events: int) -> None:
        """Call once when one of the events comes. From any thread."""
        self._watch.arm(fd, events)

    def remove(self, fd: int) -> None:
        """Watch it no longer."""
        self._watch.remove(fd)

    def close(self) -> None:
        """Stop, after the call under way."""
        self._stopping = True
        if self._thread is not None:
            os.eventfd_write(self._wakeup, 1)
            self._thread.join()
        self._watch.close()
        os.close(self._wakeup)

    def _run(self) -> None:
        while not self._stopping:
            for call in self._watch.turns(_PATIENCE, _TURNS):
                try:
                    call()
                except Exception:  # noqa: BLE001  (the thread serves all: a defect costs one stream)
                    _log.exception("a stream wasn't moved")
