"""Servers that tests run beside themselves, on loopback."""

from __future__ import annotations

import signal
import socket
import subprocess
import time
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence
    from pathlib import Path


def free_port() -> int:
    """Return a TCP port that nobody listens on now."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


@contextmanager
def running(
    command: Sequence[str], environment: Mapping[str, str], log: Path, ready: Callable[[], bool]
) -> Iterator[subprocess.Popen[bytes]]:
    """Run a server from when it is ready to the end of the block."""
    with log.open("wb") as output:
        process = subprocess.Popen(
            list(command), env=dict(environment), stdout=output, stderr=subprocess.STDOUT
        )
        try:
            end = time.monotonic() + 60
            while not ready():
                if process.poll() is not None or time.monotonic() > end:
                    raise RuntimeError(f"{command[0]} isn't ready: {log.read_text()[-2000:]}")
                time.sleep(0.05)
            yield process
        finally:
            process.terminate()
            try:
                process.wait(10)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()


@contextmanager
def stopped(process: subprocess.Popen[bytes]) -> Iterator[None]:
    """Let a process do nothing during the block: its connections stay, its answers don't come."""
    process.send_signal(signal.SIGSTOP)
    try:
        yield
    finally:
        process.send_signal(signal.SIGCONT)


def listens(port: int) -> bool:
    """Tell whether somebody does on this port of loopback."""
    with socket.socket() as probe:
        probe.settimeout(1)
        return probe.connect_ex(("127.0.0.1", port)) == 0


@contextmanager
def silent_server() -> Iterator[int]:
    """Give a port where connections are taken and nothing is ever said."""
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        listener.listen(64)
        port: int = listener.getsockname()[1]
        yield port
