"""What the service manager is told, by sd_notify's protocol: a datagram of NAME=value lines.

Without a service manager that asks for it, nothing is told. Any of these failing changes nothing
for the daemon: its sockets serve, and what the manager makes of the silence is the manager's. All
services of a machine fill one queue of its, so what it waits for is told with some patience; all
else is told the next time.
"""

from __future__ import annotations

import os
import socket
import time
from typing import TYPE_CHECKING, Final

from sealcar.closing import Closing

if TYPE_CHECKING:
    from collections.abc import Mapping

_MICROSECONDS: Final = 1_000_000
_PATIENCE: Final = 1.0  # seconds until a manager that doesn't read keeps nobody waiting


class Notifier(Closing):
    """One datagram socket to the service manager.

    It is connected at once: later the daemon may have closed itself off from where it leads.

    Args:
        environment: with NOTIFY_SOCKET, and WATCHDOG_USEC and WATCHDOG_PID, if there is one.

    Attributes:
        interval: seconds after which the watchdog wants to hear something again; 0: there is none.
    """

    def __init__(self, environment: Mapping[str, str] = os.environ) -> None:
        self._socket = _connected(environment.get("NOTIFY_SOCKET", ""))
        # a watchdog counts as late what comes after its whole time
        self.interval = _watchdog(environment) / 2 if self._socket else 0.0
        self._status = ""
        self._beaten = 0.0

    def ready(self) -> None:
        """All sockets are there; or what was read again is in force."""
        self._send("READY=1", wait=_PATIENCE)

    def reloading(self) -> None:
        """Files are being read again, until `ready`."""
        now = time.monotonic_ns() // 1000
        self._send("RELOADING=1", f"MONOTONIC_USEC={now}", wait=_PATIENCE)

    def stopping(self) -> None:
        """It ends."""
        self._send("STOPPING=1", wait=_PATIENCE)

    def status(self, text: str) -> None:
        """Show a person how it is, if that has changed."""
        if text != self._status and self._send(f"STATUS={text}"):
            self._status = text

    def beat(self) -> None:
        """Tell the watchdog, if it is time to."""
        now = time.monotonic()
        due = self.interval and now - self._beaten >= self.interval
        if due and self._send("WATCHDOG=1"):
            self._beaten = now

    def close(self) -> None:
        """Tell nothing any more. Repeating it is fine."""
        if self._socket is not None:
            self._socket.close()
            self._socket = None

    def _send(self, *lines: str, wait: float = 0.0) -> bool:
        """Tell something; False: there was no room for it, or nobody to take it."""
        if self._socket is None:
            return False
        self._socket.settimeout(wait)
        try:
            self._socket.send("\n".join(lines).encode())
        except OSError:
            return False
        return True


def _connected(path: str) -> socket.socket | None:
    """Return a socket to a path, or an abstract name that begins with @; None: nobody asks."""
    if path[:1] not in ("/", "@"):
        return None
    made = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_CLOEXEC)
    try:
        made.connect(f"\0{path[1:]}" if path[0] == "@" else path)
    except OSError:
        made.close()
        return None
    return made


def _watchdog(environment: Mapping[str, str]) -> float:
    """Return the watchdog's time in seconds; 0: there is none, or it is meant for somebody else."""
    told, whom = environment.get("WATCHDOG_USEC", ""), environment.get("WATCHDOG_PID", "")
    if not told.isdecimal() or whom not in ("", str(os.getpid())):
        return 0.0
    return int(told) / _MICROSECONDS
