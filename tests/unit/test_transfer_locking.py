from __future__ import annotations

import mmap
import os
import resource
from typing import TYPE_CHECKING

import pytest
from structlog.testing import capture_logs

from sealcar.errors import ExhaustedError
from sealcar.transfer.descriptors import FIXED_SIZE, Exported, Seal, seals_of
from sealcar_server.transfer.locking import PageLocks
from sealcar_server.transfer.segments import Segment

if TYPE_CHECKING:
    from collections.abc import Iterator

SIZE = 64 << 10


@pytest.fixture
def memory() -> Iterator[int]:
    with mmap.mmap(-1, SIZE) as mapped, Exported(mapped) as whole:
        yield whole.address


@pytest.fixture
def limited() -> Iterator[None]:
    """Let this process lock as much as the memory's size and no more."""
    before = resource.getrlimit(resource.RLIMIT_MEMLOCK)
    resource.setrlimit(resource.RLIMIT_MEMLOCK, (SIZE, before[1]))
    yield
    resource.setrlimit(resource.RLIMIT_MEMLOCK, before)


@pytest.mark.usefixtures("limited")
def test_what_keys_need_is_left_to_them_and_the_log_says_why_once(memory: int) -> None:
    locks = PageLocks(for_keys=4096)
    with capture_logs() as logs:
        assert not locks.take(memory, SIZE)
        assert not locks.take(memory, SIZE)
    (line,) = logs
    assert (line["log_level"], "4096" in line["reason"]) == ("warning", True)
    assert locks.take(memory, SIZE - 4096)
    assert not locks.take(memory, 1)
    locks.give_back(SIZE - 4096)
    assert locks.take(memory, 4096)


@pytest.mark.usefixtures("limited")
def test_a_finished_segment_is_locked_where_it_may_be_and_always_sealed() -> None:
    for for_keys, locked in ((0, True), (SIZE, False)):
        locks = PageLocks(for_keys=for_keys)
        with capture_logs():
            segment = Segment(SIZE, locks)
            segment.put(0, memoryview(b"\x01" * SIZE))
            segment.finish()
        assert segment.locked is locked
        descriptor = segment.descriptor()
        assert segment.held
        assert seals_of(descriptor) == FIXED_SIZE | Seal.WRITE | Seal.SEAL
        assert os.pread(descriptor, SIZE + 1, 0) == b"\x01" * SIZE
        os.close(descriptor)
        assert not segment.held
        segment.close()
        assert locks.take(0, 0), "nothing of it is counted any more"


def test_a_segment_that_is_sealed_takes_nothing_more() -> None:
    segment = Segment(SIZE, PageLocks())
    segment.put(4, memoryview(b"last"))
    with capture_logs():
        segment.finish()
    with pytest.raises(ExhaustedError):
        segment.put(0, memoryview(b"late"))
    segment.close()
