"""Answers that come within the time for which one may be silent, however they trickle.

A socket's timeout begins anew with each byte, and so would never pass for one that sends those
of a head, or of what stands between chunks, one by one.
"""

from __future__ import annotations

import socket
import threading
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any, Final

from requests.adapters import HTTPAdapter
from urllib3.connection import HTTPConnection, HTTPSConnection

from sealcar.rpc import Patience

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from urllib3 import HTTPConnectionPool
    from urllib3.response import HTTPResponse


def pieces(response: HTTPResponse, most: int, limit: float) -> Iterator[bytes]:
    """Yield what comes of a body.

    Args:
        response: whose.
        most: bytes of a piece; once there are any, no more are waited for.
        limit: seconds that one may take.

    Raises:
        TimeoutError: it takes longer. Else what urllib3 finds.
    """
    if not response.chunked:  # what a socket gives at once is a piece, and its timeout will do
        while piece := response.read1(most, decode_content=False):
            yield piece
        return
    # looked up when it is wanted: urllib3 before 2.3 has none
    with _in_time(lambda: response.shutdown(), limit) as patience:  # noqa: PLW0108
        while piece := response.read1(most, decode_content=False):
            patience.rest()
            yield piece
            patience.beat()


@contextmanager
def _in_time(shut: Callable[[], object], limit: float) -> Iterator[Patience]:
    """Have a wait for a connection end.

    Args:
        shut: ends what comes on it.
        limit: seconds of it, and from each beat on.

    Raises:
        TimeoutError: it came to that.
    """
    patience = Patience(_Cut(shut), limit)
    try:
        with patience:
            yield patience
    finally:
        # whatever the end looked like: it may pass for a whole answer
        if patience.expired:
            raise TimeoutError


class _Cut:
    """A wait that can be ended."""

    def __init__(self, shut: Callable[[], object]) -> None:
        self._shut = shut

    def cancel(self) -> bool:
        """End it."""
        # it ended meanwhile; or it can't be, as TLS within TLS
        with suppress(OSError, ValueError, RuntimeError, AttributeError):
            self._shut()
        return True


class _Prompt(HTTPConnection):
    """One without TLS."""

    def getresponse(self) -> HTTPResponse:  # type: ignore[override]  # as in urllib3
        """Return the answer once its head is here.

        Raises:
            TimeoutError: it isn't, in time.
        """
        sock = self.sock
        with _in_time(lambda: sock.shutdown(socket.SHUT_RD), self.timeout or threading.TIMEOUT_MAX):
            return super().getresponse()


class _Secure(_Prompt, HTTPSConnection):
    """One with TLS."""


_KINDS: Final[dict[type, type[_Prompt]]] = {HTTPConnection: _Prompt, HTTPSConnection: _Secure}


class Adapter(HTTPAdapter):
    """Has a session take heads of answers from such connections."""

    def get_connection_with_tls_context(
        self,
        *args: Any,  # noqa: ANN401  (of requests)
        **options: Any,  # noqa: ANN401
    ) -> HTTPConnectionPool:
        """Return where connections come from, and go back to."""
        pool = super().get_connection_with_tls_context(*args, **options)
        kind = _KINDS.get(pool.ConnectionCls)
        if kind is not None:  # or it is the one already
            pool.ConnectionCls = kind
        return pool
