"""Notices what other daemons removed from a store that several have open.

What is remembered here would be served for as long as it is remembered.
"""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Final

import structlog

from sealcar.closing import Closing
from sealcar.errors import SealcarError

if TYPE_CHECKING:
    from sealcar_server.service.remembering import Remembered
    from sealcar_server.service.uses import Uses
    from sealcar_server.store.interface import Store

_LONGEST: Final = 2.0  # seconds
_log: Final = structlog.get_logger("sealcar.store")


class Following(Closing):
    """Looks again and again, in a thread of its own; not at all where nobody else removes anything.

    Args:
        store: where generations are.
        remembered: forgets those that are gone.
        uses: of them end.
    """

    def __init__(self, store: Store, remembered: Remembered, uses: Uses) -> None:
        self._store, self._remembered, self._uses = store, remembered, uses
        self._ending = threading.Event()
        self._thread: threading.Thread | None = None
        if store.refresh:
            self._thread = threading.Thread(target=self._run, name="following", daemon=True)
            self._thread.start()

    def close(self) -> None:
        """Look no more. Repeating it is fine."""
        self._ending.set()
        if self._thread is not None:
            # it may be waiting for the store
            self._thread.join(_LONGEST)

    def _run(self) -> None:
        while not self._ending.wait(self._store.refresh):
            try:
                self._look()
            except SealcarError as error:
                _log.warning("the store can't be looked at", reason=error.message)

    def _look(self) -> None:
        for name, version, number in self._remembered.all():
            if self._ending.is_set():
                return
            if not self._uses.includes(name, version, number):
                # looking costs a request; whoever uses it again opens it anew
                self._remembered.forget((name, version, number))
            elif not self._store.is_complete(name, version, number):
                self._remembered.forget((name, version, number))
                self._uses.end(name, version, [number])
                _log.info("removed elsewhere", package=name, version=version, generation=number)
