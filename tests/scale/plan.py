"""What the command line chose."""

from __future__ import annotations

import sys
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from scale.nodes import Contents

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

# 384 MiB of middling payloads; and the 2 GB that a fleet wants
_SERVED: Final = Contents(24, 16 << 20)
_WANTED: Final = Contents(8, 250_000_000)


def _say(line: str) -> None:
    sys.stderr.write(line + "\n")


@dataclass(frozen=True)
class Plan:
    """Of a whole run.

    Attributes:
        folder: an empty directory on the disk that counts; its content goes at the end.
        contents: of the package that 1 … N daemons serve.
        daemons: how many, one after the other.
        rounds: samples of each.
        streams: payloads that a reader asks for at once.
        package: that a whole fleet wants.
        packages: how many are listed, one after the other; ascending.
        fleet: nodes of it.
        real: how many of them run a daemon.
        rate: bytes a second that the bucket's server may send to the fleet.
        quick: as little as shows that it works; the figures mean nothing.
        say: show that it goes on; one line for people.
    """

    folder: Path
    contents: Contents = _SERVED
    daemons: tuple[int, ...] = (1, 2, 4, 8)
    rounds: int = 3
    streams: int = 2
    package: Contents = _WANTED
    packages: tuple[int, ...] = (1, 10, 100)
    fleet: int = 50
    real: int = 4
    rate: float = 1.25e9
    quick: bool = False
    say: Callable[[str], None] = field(default=_say, repr=False)


def quick(folder: Path) -> Plan:
    """Return the smallest run."""
    small = Contents(2, 1 << 20)
    return Plan(
        folder,
        small,
        (1,),
        rounds=1,
        package=small,
        packages=(1,),
        fleet=3,
        real=1,
        rate=5e7,
        quick=True,
    )
