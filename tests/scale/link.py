"""A network link of a stated width between a server and everybody else on this machine.

The server lives in a network namespace of its own, and a token bucket bounds what leaves it. This
needs root and iproute2; elsewhere the server listens on loopback, as fast as the machine is.
"""

from __future__ import annotations

import os
import shutil
import subprocess
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterator

# of a network that is set aside for benchmarks (RFC 2544)
_OURS: Final = "198.18.113.1"
_SERVERS: Final = "198.18.113.2"
_LOOPBACK: Final = "127.0.0.1"
_BITS: Final = 8
_STEP: Final = 1000  # timer ticks a second, at least: what a bucket must hold


@dataclass(frozen=True)
class Link:
    """Where a server runs.

    Attributes:
        address: that it listens on.
        command: what its own command line comes behind.
        interface: of our end; "" on loopback.
    """

    address: str = _LOOPBACK
    command: tuple[str, ...] = ()
    interface: str = ""

    def passed(self) -> int:
        """Return how many bytes have left the server so far, all headers included.

        On loopback, all that anybody has sent to anybody.
        """
        name = self.interface or "lo"
        return int(Path(f"/sys/class/net/{name}/statistics/rx_bytes").read_text())

    def bound(self, rate: float | None) -> None:
        """Let no more bytes a second leave the server; None: as many as can.

        Raises:
            RuntimeError: this link has no bound.
        """
        if not self.interface:
            raise RuntimeError("loopback has no bound")
        device = f"{self.interface}s"
        inside = [*self.command, "tc", "qdisc"]
        # there is none to be taken away the first time
        subprocess.run([*inside, "del", "dev", device, "root"], capture_output=True, check=False)
        if rate is not None:
            burst = max(int(rate) // _STEP, 1 << 18)
            shape = [f"rate={int(rate) * _BITS}bit", f"burst={burst}", "latency=50ms"]
            words = [word for each in shape for word in each.split("=")]
            _run(*inside, "add", "dev", device, "root", "tbf", *words)


def missing() -> str:
    """Say why no link can be bounded here; "" if it can."""
    if os.geteuid():
        return "bounding a link needs root"
    lacks = [each for each in ("ip", "tc") if shutil.which(each) is None]
    return f"bounding a link needs {' and '.join(lacks)}" if lacks else ""


@contextmanager
def link() -> Iterator[Link]:
    """Have a link that can be bounded.

    Raises:
        RuntimeError: not on this machine.
    """
    name = f"scale{os.getpid()}"
    inside = ("ip", "netns", "exec", name)
    _run("ip", "netns", "add", name)
    try:
        _run("ip", "link", "add", name, "type", "veth", "peer", f"{name}s", "netns", name)
        _run("ip", "address", "add", f"{_OURS}/30", "dev", name)
        _run("ip", "link", "set", name, "up")
        _run(*inside, "ip", "address", "add", f"{_SERVERS}/30", "dev", f"{name}s")
        _run(*inside, "ip", "link", "set", f"{name}s", "up")
        yield Link(_SERVERS, inside, name)
    finally:
        # the pair goes with it
        _run("ip", "netns", "delete", name)


def _run(*command: str) -> None:
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise RuntimeError(f"{' '.join(command)}: {done.stderr.strip()}")
