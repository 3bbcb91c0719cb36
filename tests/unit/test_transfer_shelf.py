"""What is kept of segments, in which order it goes, and that nobody ever has one to write in."""

from __future__ import annotations

import os
import subprocess
import sys
from collections import deque
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Final

import pytest
from structlog.testing import capture_logs
from support.streams import opened, seal

from sealcar.errors import DeniedError
from sealcar_server.sealing.derivation import PayloadKey
from sealcar_server.transfer.budget import Budget
from sealcar_server.transfer.engine import Engine
from sealcar_server.transfer.locking import PageLocks
from sealcar_server.transfer.remains import Remains
from sealcar_server.transfer.segments import Segment
from sealcar_server.transfer.shelf import Shelf
from sealcar_server.transfer.shelved import Place, Wanted

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from sealcar.errors import SealcarError
    from sealcar_server.sealing.writer import SealedSize

SIZE: Final = 64 << 10
KEY: Final = PayloadKey(b"k" * 32, b"associated")


class Meter:
    def __init__(self) -> None:
        self.filled = 0

    def spent(self, phase: str, _seconds: float) -> None:
        self.filled += phase == "fill"

    def moved(self, *_: object) -> None: ...
    def denied(self, *_: object) -> None: ...
    def transferred(self, *_: object) -> None: ...
    def shared(self, *_: object) -> None: ...


class Permit:
    def check(self) -> None: ...


@dataclass(eq=False)
class Reader:
    """Who asks for a segment; holds a descriptor of it, as a process does that has mapped it."""

    who: str = "reader"
    what: str = "grant"
    permit: Permit = field(default_factory=Permit)
    held: int = -1
    error: SealcarError | None = None

    def take(self, segment: Segment, /) -> bool:
        self.held = segment.descriptor()
        return True

    def fail(self, error: SealcarError, /) -> None:
        self.error = error

    def progress(self, filled: int, /) -> None: ...

    @property
    def answered(self) -> bool:
        return self.held >= 0 or self.error is not None

    def leave(self) -> bytes:
        data = os.pread(self.held, SIZE, 0)
        os.close(self.held)
        return data


class Shelves:
    """A shelf with room for three segments, on this thread."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._sealed: dict[str, SealedSize] = {}
        self.budget = Budget(4 * SIZE)
        self.engine = Engine(1)
        self.meter = Meter()
        self._posted: deque[Callable[[], None]] = deque()
        self.remains = Remains()
        place = Place(
            self.budget, self.engine, self.meter, self.remains, self._posted.append, self._chore
        )
        self.shelf = Shelf(place, wait=20, idle=100)

    def _chore(
        self,
        _owner: object,
        work: Callable[[], None],
        done: Callable[[None, SealcarError | None], None],
    ) -> None:
        with capture_logs():
            work()
        done(None, None)

    def ask(self, name: str, owner: str = "a") -> Reader:
        """Return a reader who has asked; what he gets comes with `run`."""
        reader, path = Reader(), self._folder / name
        if name not in self._sealed:
            self._sealed[name] = seal(path, KEY, name.encode() * SIZE)
        sealed = self._sealed[name]
        self.shelf.get(Wanted(name, owner, SIZE, opened(path, KEY, sealed)), reader)
        return reader

    def run(self, until: Callable[[], bool]) -> None:
        while not until():
            if self._posted:
                self._posted.popleft()()

    def had(self, name: str, owner: str = "a") -> bool:
        """Have a segment, let it go, and tell whether it was there."""
        before = self.meter.filled
        reader = self.ask(name, owner)
        self.run(lambda: reader.answered)
        assert reader.leave() == name.encode() * SIZE
        return self.meter.filled == before

    def close(self) -> None:
        self.shelf.close()
        self.engine.close()


@pytest.fixture
def shelves(tmp_path: Path) -> Iterator[Shelves]:
    made = Shelves(tmp_path)
    made.engine.start()
    yield made
    made.close()


def test_what_was_handed_out_longest_ago_goes_first(shelves: Shelves) -> None:
    for name in "xyz":
        assert not shelves.had(name)
    assert shelves.had("x"), "which makes it the youngest"
    assert not shelves.had("w"), "there is room for three"
    assert [shelves.had(name) for name in "xzw"] == [True, True, True], "so y has gone"
    assert not shelves.had("y")
    assert not shelves.had("x"), "which was the oldest then"
    assert shelves.budget.used == 3 * SIZE


def test_what_somebody_has_stays_though_it_is_the_oldest_and_counts(shelves: Shelves) -> None:
    oldest = shelves.ask("x")
    shelves.run(lambda: oldest.answered)
    for name in "yz":
        assert not shelves.had(name)
    assert not shelves.had("w")
    assert shelves.had("x"), "whoever had it"
    assert not shelves.had("y")
    assert oldest.leave() == b"x" * SIZE


def test_a_segment_that_is_dropped_counts_until_the_last_one_has_let_it_go(
    shelves: Shelves,
) -> None:
    readers = [shelves.ask("x") for _ in range(2)]
    shelves.run(lambda: all(one.answered for one in readers))
    for one in readers:
        one.permit.check = _refuse  # type: ignore[method-assign]  # the grant is gone
    shelves.shelf.drop_fallen()
    for one in readers:
        shelves.shelf.look()
        assert shelves.budget.used == SIZE
        one.leave()
    shelves.shelf.look()
    assert shelves.budget.used == 0


def test_a_segment_counts_as_long_as_any_process_has_it_who_ever_got_it_first(
    shelves: Shelves,
) -> None:
    first = shelves.ask("x")
    shelves.run(lambda: first.answered)
    waits = [sys.executable, "-c", "import sys; sys.stdin.read()"]
    with subprocess.Popen(waits, stdin=subprocess.PIPE, pass_fds=[first.held]) as heir:
        first.leave()
        first.permit.check = _refuse  # type: ignore[method-assign]  # the grant is gone
        shelves.shelf.drop_fallen()
        shelves.shelf.look()
        assert shelves.budget.used == SIZE
        heir.kill()
    shelves.shelf.look()
    assert shelves.budget.used == 0


def _refuse() -> None:
    raise DeniedError("no more")


def test_what_waits_while_all_is_held_gets_its_turn_when_something_is_let_go(
    shelves: Shelves,
) -> None:
    held = [shelves.ask(name) for name in "xyz"]
    shelves.run(lambda: all(one.answered for one in held))
    late = shelves.ask("w")
    shelves.shelf.look()
    assert not late.answered
    held[1].leave()
    shelves.shelf.look()
    shelves.run(lambda: late.answered)
    assert late.leave() == b"w" * SIZE
    for one in (held[0], held[2]):
        one.leave()


def maps() -> list[str]:
    """Return how segments are mapped here now."""
    lines = Path("/proc/self/maps").read_text().splitlines()
    return [line.split()[1] for line in lines if "memfd:sealcar-segment" in line]


def test_a_segment_is_never_mapped_for_writing() -> None:
    with capture_logs():
        segment = Segment(SIZE, PageLocks(for_keys=0))
        assert not maps()
        segment.put(0, memoryview(b"\1" * SIZE))
        assert not maps(), "its bytes were written by pwrite"
        segment.finish()
    assert set(maps()) <= {"r--s"}
    descriptor = segment.descriptor()
    with pytest.raises(OSError, match="Bad file descriptor"):
        os.pwrite(descriptor, b"x", 0)
    os.close(descriptor)
    segment.close()
    assert not maps()
