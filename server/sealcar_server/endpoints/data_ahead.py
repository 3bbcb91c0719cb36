"""A segment that is filled before anybody asks for it."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Final

from sealcar.errors import SealcarError, UnavailableError
from sealcar_server.transfer.shelved import Wanted

if TYPE_CHECKING:
    from collections.abc import Callable

    from sealcar_server.access.principal import Principal
    from sealcar_server.endpoints.data_door import Door
    from sealcar_server.service.payload_source import PayloadSource
    from sealcar_server.transfer.segments import Segment

_LOOK: Final = 0.1  # seconds between two looks whether it is still wanted and allowed


class FillAhead:
    """One payload on its way into a segment; it stays there as others do that nobody has.

    Args:
        door: of the data socket, on whose thread everything but `run` is.
        principal: who wants it, and whose memory it counts as.
        source: opened for him; owned from now on.
    """

    def __init__(self, door: Door, principal: Principal, source: PayloadSource) -> None:
        self._door, self._principal, self._source = door, principal, source
        # no process: whoever is asked who has plaintext never hears of this
        self.who = None
        self.what = (principal.account, source.scope.package, source.scope.component)
        self.permit = source.permit
        key = (source.payload.identity, source.size)
        self._wanted = Wanted(key, principal.account, source.size, source.reader)
        self._ended = threading.Event()
        self._failure: SealcarError | None = None
        self._filled = 0

    def run(self, progress: Callable[[int], None]) -> None:
        """Return when the segment is complete.

        Args:
            progress: is told how much of it is; what it raises gives the segment up.

        Raises:
            ExhaustedError: there is no room for it.
            SealcarError: it can't be read, or may not be any more.
        """
        self._door.post(self._begin)
        try:
            while not self._ended.wait(_LOOK):
                self.permit.check()
                self.permit.renew()
                progress(self._filled)
        except BaseException:
            self._door.post(self._leave)
            raise
        if self._failure is not None:
            raise self._failure

    def take(self, segment: Segment, /) -> bool:
        """It is complete."""
        del segment
        self._end(None)
        return True

    def fail(self, error: SealcarError, /) -> None:
        """There will be none."""
        self._end(error)

    def progress(self, filled: int, /) -> None:
        """Note how far it is."""
        self._filled = filled

    def _begin(self) -> None:
        door = self._door
        try:
            if door.draining:
                raise UnavailableError("the daemon is stopping", retry_after=1.0)
            door.admit(self._principal)
        except SealcarError as error:
            self._source.close()
            self._failure = error
            self._ended.set()
            return
        door.begun(self._principal)
        try:
            door.shelf.get(self._wanted, self)
        except SealcarError as error:
            self._end(error)

    def _leave(self) -> None:
        if not self._ended.is_set():
            self._door.shelf.leave(self._wanted, self)
            self._end(UnavailableError("nobody waits for it any more"))

    def _end(self, error: SealcarError | None) -> None:
        if not self._ended.is_set():
            self._door.ended(self._principal)
            self._failure = error
            self._ended.set()
