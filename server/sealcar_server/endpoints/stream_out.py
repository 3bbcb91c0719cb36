"""What waits to be sent on a byte stream: messages, each with its length in front, and pieces.

A piece's bytes lie in a slot until they are sent. Nobody waits for a client that doesn't receive.
"""

from __future__ import annotations

import socket as sockets
import threading
from collections import deque
from typing import TYPE_CHECKING, Final

from sealcar.errors import UnavailableError
from sealcar_server.transfer.rings import SLOTS

if TYPE_CHECKING:
    from collections.abc import Callable

_LENGTH: Final = 4
_FLAGS: Final = sockets.MSG_DONTWAIT | sockets.MSG_NOSIGNAL
# messages and pieces that wait: those of all slots, and what is said before and after them
_MOST: Final = SLOTS + 4
_TURN: Final = 2 << 20  # bytes, before another stream has its turn


def framed(message: bytes) -> bytes:
    """Return a message as it goes over a stream."""
    return len(message).to_bytes(_LENGTH, "little") + message


class _Part:
    """A message, perhaps with a piece behind it.

    Attributes:
        rest: what of it is still to be sent.
        slot: where the piece lies.
    """

    __slots__ = ("begun", "rest", "slot")

    def __init__(self, rest: list[memoryview], slot: int | None) -> None:
        self.rest, self.slot = rest, slot
        self.begun = False

    def sent(self, count: int) -> bool:
        """Count bytes as sent; tell whether that was all."""
        self.begun = True
        while self.rest and count >= len(self.rest[0]):
            count -= len(self.rest.pop(0))
        if count:
            self.rest[0] = self.rest[0][count:]
        return not self.rest


class Outflow:
    """Thread-safe.

    Args:
        sock: never waited for; stays the caller's.
        returned: told the slot of each piece that isn't needed any more.
    """

    def __init__(self, sock: sockets.socket, returned: Callable[[int], None]) -> None:
        self._sock, self._returned = sock, returned
        self._parts: deque[_Part] = deque()
        # nobody waits for who sends, but to drop what isn't sent
        self._sending, self._putting = threading.Lock(), threading.Lock()

    @property
    def waiting(self) -> bool:
        """Whether something is still to be sent."""
        return bool(self._parts)

    def put(
        self, message: bytes, piece: memoryview | None = None, *, slot: int | None = None
    ) -> None:
        """Queue a message, with a piece right behind it if there is one.

        Raises:
            UnavailableError: the client doesn't receive what was sent before.
        """
        rest = [memoryview(framed(message))]
        part = _Part([*rest, piece] if piece else rest, slot)
        with self._putting:
            if len(self._parts) >= _MOST:
                raise UnavailableError("the client doesn't receive")
            self._parts.append(part)

    def push(self) -> None:
        """Send what can be sent now; of much, a part, so that others have their turns.

        Raises:
            OSError: the client is gone.
        """
        # who finds another one sending leaves it to him, or to who watches the socket
        if not self._sending.acquire(blocking=False):
            return
        try:
            self._push()
        except BlockingIOError:
            return
        finally:
            self._sending.release()

    def drop_pieces(self) -> None:
        """Let no byte of a piece out any more: what comes next says that they count for nothing."""
        with self._sending, self._putting:
            dropped = [part.slot for part in self._parts if part.slot is not None]
            self._parts = deque(part for part in self._parts if part.slot is None or part.begun)
            for part in self._parts:
                if part.slot is not None:
                    # its length was announced, so something has to come
                    part.rest[-1] = memoryview(bytes(len(part.rest[-1])))
                    part.slot = None
        for slot in dropped:
            self._returned(slot)

    def clear(self) -> None:
        """Forget everything."""
        with self._sending:
            self._parts.clear()

    def _push(self) -> None:
        sent = 0
        while self._parts and sent < _TURN:
            part = self._parts[0]
            count = self._sock.sendmsg(part.rest, (), _FLAGS)
            sent += count
            if part.sent(count):
                self._parts.popleft()
                if part.slot is not None:
                    self._returned(part.slot)
