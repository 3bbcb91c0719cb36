"""The ring that is made before anybody asks: one at most, whole, and gone with the daemon."""

from __future__ import annotations

import mmap
import os
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from sealcar.errors import ExhaustedError
from sealcar_server.transfer.rings import SIZE, SLOTS
from sealcar_server.transfer.spare import Done, Spare

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from sealcar_server.transfer.rings import Ring


class Chores:
    """Does what it is given when it is told to."""

    def __init__(self) -> None:
        self.given: list[tuple[Callable[[], Ring], Done]] = []

    def __call__(self, work: Callable[[], Ring], done: Done) -> None:
        self.given.append((work, done))

    def do(self) -> None:
        work, done = self.given.pop()
        done(work(), None)

    def fail(self) -> None:
        self.given.pop()[1](None, ExhaustedError("no memory"))


@pytest.fixture
def chores() -> Chores:
    return Chores()


@pytest.fixture
def spare(chores: Chores) -> Iterator[Spare]:
    made = Spare(chores)
    yield made
    made.close()


def test_it_is_as_large_as_a_ring_gets_with_all_of_its_pages(spare: Spare, chores: Chores) -> None:
    spare.prepare()
    assert not spare.has(SLOTS)
    chores.do()
    assert spare.has(SLOTS)
    ring = spare.take(SLOTS)
    assert ring is not None
    with ring:
        assert ring.size == SIZE
        assert not ring.client_writes
        assert os.fstat(ring.watched).st_blocks * 512 == SIZE
        assert not any(ring.touch(slot) for slot in range(ring.slots))
        descriptor = ring.take_descriptor()
        with mmap.mmap(descriptor, SIZE, prot=mmap.PROT_READ) as seen:
            os.close(descriptor)
            assert not any(seen[:])


def test_only_one_is_made_however_often_it_is_asked_for(spare: Spare, chores: Chores) -> None:
    spare.prepare()
    spare.prepare()
    assert len(chores.given) == 1
    chores.do()
    spare.prepare()
    assert not chores.given


def test_it_is_given_away_once_and_then_another_one_may_be_made(
    spare: Spare, chores: Chores
) -> None:
    spare.prepare()
    chores.do()
    assert spare.take(SLOTS // 2) is None
    ring = spare.take(SLOTS)
    assert ring is not None
    ring.close()
    assert spare.take(SLOTS) is None
    spare.prepare()
    chores.do()
    assert spare.has(SLOTS)


def test_where_there_is_no_memory_it_is_tried_again(spare: Spare, chores: Chores) -> None:
    spare.prepare()
    chores.fail()
    assert not spare.has(SLOTS)
    spare.prepare()
    chores.do()
    assert spare.has(SLOTS)


@pytest.mark.parametrize("late", [False, True], ids=["waiting", "still being made"])
def test_nothing_of_it_stays_after_the_end(spare: Spare, chores: Chores, *, late: bool) -> None:
    before = len(list(Path("/proc/self/fd").iterdir()))
    spare.prepare()
    if late:
        spare.close()
        chores.do()
    else:
        chores.do()
        spare.close()
    assert not spare.has(SLOTS)
    assert len(list(Path("/proc/self/fd").iterdir())) == before
    spare.prepare()
    assert not chores.given
