"""Processes that map a payload as a segment, touch every page of it, and keep it."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple, Self

from support.daemon import environment
from support.payload_packages import COMPONENT, PACKAGE, VARIANT

if TYPE_CHECKING:
    from support.daemon import Daemon

_NAME: Final = "memfd:sealcar-segment"
# children of one that has imported already; each connects for itself
_PROGRAM: Final = """
import os, signal, sys
import sealcar, sealcar.client
socket, package, component, variant, payload, count, leave = sys.argv[1:]
children = []
for _ in range(int(count)):
    child = os.fork()
    if child:
        children.append(child)
        continue
    client = sealcar.connect(socket)
    mapped = client.scope(package, component, variant).map(payload, shared=True)
    touched = sum(mapped.view[::4096])
    if leave == "leave":
        client.close()
    os.write(1, b"%d\\n" % os.getpid())
    sys.stdin.read()
    os._exit(0)
sys.stdin.read()
for child in children:
    os.waitpid(child, 0)
"""


class Mapped(NamedTuple):
    """What a process has mapped of segments: their inodes, and its part of their memory."""

    inodes: frozenset[str]
    proportional: int


def mapped_by(pid: int) -> Mapped:
    """Return what a process has mapped of segments."""
    inodes, proportional, inside = set(), 0, False
    for line in Path(f"/proc/{pid}/smaps").read_text().splitlines():
        words = line.split()
        if "-" in words[0] and ":" not in words[0]:
            inside = _NAME in line
            if inside:
                inodes.add(words[4])
        elif inside and words[0] == "Pss:":
            proportional += int(words[1]) << 10
    return Mapped(frozenset(inodes), proportional)


class Readers:
    """So many processes; use as a context manager, which returns once all of them have it.

    Args:
        daemon: that they connect to.
        payload: of the usual package.
        count: of them.
        leave: they close their connections, and keep what is mapped.

    Attributes:
        pids: of them.
    """

    def __init__(
        self, daemon: Daemon, payload: str, count: int = 1, *, leave: bool = False
    ) -> None:
        place = (PACKAGE, COMPONENT, VARIANT, payload)
        arguments = [str(daemon.socket), *place, str(count), "leave" if leave else "stay"]
        self._process = subprocess.Popen(
            [sys.executable, "-c", _PROGRAM, *arguments],
            env=environment(),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        assert self._process.stdout
        self.pids = [int(self._process.stdout.readline()) for _ in range(count)]

    def close(self) -> None:
        """End them."""
        self._process.communicate()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
