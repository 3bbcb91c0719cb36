"""A part of the benchmark: what it is called, how long it takes, and what gives its rows."""

from __future__ import annotations

import sys
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from bench.rows import Row


def _say(line: str) -> None:
    sys.stderr.write(line + "\n")


@dataclass(frozen=True)
class Setting:
    """What the command line chose.

    Attributes:
        folder: an empty directory of the run, on the disk that counts; removed at the end.
        size: bytes of the big payload.
        rounds: samples of each way that are wanted.
        quick: as little as shows that it works; the figures mean nothing.
        full: what takes very long or very much disk, too.
        say: show that it goes on; one line for people.
    """

    folder: Path
    size: int = 1 << 30
    rounds: int = 5
    quick: bool = False
    full: bool = False
    say: Callable[[str], None] = field(default=_say, repr=False)


@dataclass(frozen=True)
class Part:
    """One part; it can be run alone.

    Attributes:
        name: on the command line and in the report.
        about: what it compares, one line for people.
        seconds: about how long it takes on two cores.
        run: measures, and returns its rows. It leaves no process, mount or file behind, whatever
            happens.
    """

    name: str
    about: str
    seconds: Callable[[Setting], float]
    run: Callable[[Setting], list[Row]]
