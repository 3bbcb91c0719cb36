"""Processes that wait for a word and work then, all at the same time; and what they say of it."""

from __future__ import annotations

import json
import sys
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from bench import told
from support import c_programs
from support.payload_packages import COMPONENT, PACKAGE, VARIANT

from sealcar_server.store.bucket.cached import PIECE
from sealcar_server.store.bucket.choosing import LONGEST
from sealcar_server.store.bucket.fetching import PARALLEL

if TYPE_CHECKING:
    import subprocess
    from collections.abc import Iterator, Mapping, Sequence

    from scale.bucket import Bucket

PYTHON: Final = "Python"
C: Final = "C"
LANGUAGES: Final = (C, PYTHON)
_READER: Final = str(Path(__file__).with_name("reading.py"))


@dataclass(frozen=True)
class Habits:
    """How a daemon fetches what it is asked for.

    Attributes:
        connections: to the bucket, at once.
        piece: bytes that it asks for at a time.
    """

    connections: int
    piece: int


HABITS: Final = Habits(PARALLEL, LONGEST * PIECE)


@dataclass(frozen=True)
class Command:
    """What a process runs."""

    words: tuple[str, ...]
    variables: Mapping[str, str]


@dataclass(frozen=True)
class Done:
    """What one of them did.

    Attributes:
        begun: seconds of a clock that all processes share.
        ended: the same.
        bytes: that came.
        busy: seconds that it computed.
        first: of each blob, seconds until its first byte was there.
        requests: that it sent to a bucket by itself.
    """

    begun: float
    ended: float
    bytes: int
    busy: float = 0.0
    first: tuple[float, ...] = ()
    requests: int = 0

    @property
    def seconds(self) -> float:
        return self.ended - self.begun


class Together:
    """Processes that are ready.

    Attributes:
        pids: of them.
    """

    def __init__(self, running: Sequence[subprocess.Popen[str]]) -> None:
        self._running = running
        self.pids = [each.pid for each in running]

    def go(self) -> list[Done]:
        """Have all of them work, and return what each did, in their order."""
        for each in self._running:
            told.go(each)
        return [_done(json.loads(told.line(each))) for each in self._running]


def reader(language: str, socket: Path, streams: int, largest: int) -> Command:
    """Return what reads the whole package of a daemon, so many payloads at a time."""
    arguments = (str(streams), str(largest), PACKAGE, COMPONENT, VARIANT)
    made = (
        (str(c_programs.program("scale_reader")),) if language == C else (sys.executable, _READER)
    )
    return Command((*made, *arguments), {"SEALCAR_SOCKET": str(socket)})


def stand_in(bucket: Bucket, payloads: Mapping[str, int]) -> Command:
    """Return what fetches objects of a bucket as a node does, and drops them.

    Args:
        bucket: to be read.
        payloads: sizes of the objects, by path.
    """
    made = str(c_programs.program("scale_node"))
    place = (bucket.link.address, str(bucket.port))
    way = (str(HABITS.connections), str(HABITS.piece))
    objects = [word for path, size in payloads.items() for word in (path, str(size))]
    return Command((made, *place, *way, *objects), {})


@contextmanager
def together(commands: Sequence[Command]) -> Iterator[Together]:
    """Have processes that are ready; they end with the block."""
    with told.ready([(each.words, each.variables) for each in commands]) as running:
        yield Together(running)


def _done(said: Mapping[str, Any]) -> Done:
    return Done(**{**said, "first": tuple(said.get("first", ()))})
