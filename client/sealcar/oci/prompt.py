"""Connections on which the head of an answer comes within the time for which one may be silent.

A socket's timeout begins anew with each byte, and so would never pass for one that trickles.
"""

from __future__ import annotations

import socket
import threading
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Final

from requests.adapters import HTTPAdapter
from urllib3.connection import HTTPConnection, HTTPSConnection

if TYPE_CHECKING:
    from urllib3 import HTTPConnectionPool
    from urllib3.response import HTTPResponse


class _Prompt(HTTPConnection):
    """One without TLS."""

    def getresponse(self) -> HTTPResponse:  # type: ignore[override]  # as in urllib3
        """Return the answer once its head is here.

        Raises:
            TimeoutError: it isn't, in time.
        """
        late = threading.Event()
        limit = self.timeout or threading.TIMEOUT_MAX
        timer = threading.Timer(limit, _hang_up, (self.sock.fileno(), late))
        timer.daemon = True
        timer.start()
        try:
            return super().getresponse()
        finally:
            timer.cancel()
            timer.join()
            # what is cut there may pass for a whole head
            if late.is_set():
                raise TimeoutError


class _Secure(_Prompt, HTTPSConnection):
    """One with TLS."""


_KINDS: Final[dict[type, type[_Prompt]]] = {HTTPConnection: _Prompt, HTTPSConnection: _Secure}


class Prompt(HTTPAdapter):
    """Has a session use them."""

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


def _hang_up(descriptor: int, late: threading.Event) -> None:
    late.set()
    # below TLS, with which another thread is busy; or the registry was faster
    with (
        suppress(OSError),
        socket.fromfd(descriptor, socket.AF_INET, socket.SOCK_STREAM) as line,
    ):
        line.shutdown(socket.SHUT_RDWR)
