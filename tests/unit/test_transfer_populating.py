"""A segment's pages are found before anybody touches them, for as long as it is mapped."""

from __future__ import annotations

import gc
import os
import re
import threading
import time
from contextlib import closing
from pathlib import Path

import pytest

from sealcar.transfer.descriptors import FIXED_SIZE, Seal, memory, read_only, seal
from sealcar.transfer.memory import populate
from sealcar.transfer.segments import SegmentMemory

_SIZE = 16 << 20


def _segment(size: int = _SIZE) -> SegmentMemory:
    made = memory("test-segment", size)
    try:
        written = 0
        while written < size:
            written += os.pwrite(made, b"\xa5" * min(1 << 20, size - written), written)
        seal(made, FIXED_SIZE | Seal.WRITE)
        reading = read_only(made)
    finally:
        os.close(made)
    try:
        return SegmentMemory(reading, size)
    finally:
        os.close(reading)


def _mapped_pages(address: int) -> int:
    """Return how many KiB of the mapping at an address this process has in its tables."""
    found = re.search(
        rf"^{address:x}-.*?^Rss: +(\d+) kB",
        Path("/proc/self/smaps").read_text(),
        re.MULTILINE | re.DOTALL,
    )
    assert found
    return int(found[1])


def test_pages_of_a_segment_are_there_before_anybody_touches_them() -> None:
    with closing(_segment()) as segment:
        if not populate(segment.address, 4096):
            pytest.skip("Linux can't do this before 5.14")
        until = time.monotonic() + 20
        while _mapped_pages(segment.address) < _SIZE >> 10:
            assert time.monotonic() < until
            time.sleep(0.001)
        assert bytes(segment.view()[-3:]) == b"\xa5\xa5\xa5"


def test_a_segment_can_be_closed_at_any_moment() -> None:
    for _ in range(20):
        segment = _segment()
        segment.close()
        segment.close()


@pytest.mark.parametrize("size", [4096, _SIZE])
def test_a_segment_that_nobody_closes_is_gone_with_its_last_user(size: int) -> None:
    gc.disable()
    try:
        segment = _segment(size)
        where = f"{segment.address:x}-"
        assert where in Path("/proc/self/maps").read_text()
        del segment
        until = time.monotonic() + 20
        while re.search(
            f"^{where}.*test-segment", Path("/proc/self/maps").read_text(), re.MULTILINE
        ):
            assert time.monotonic() < until, "it is kept"
            time.sleep(0.001)
    finally:
        gc.enable()


def test_a_small_segment_has_no_thread_of_its_own() -> None:
    # a thread of another segment's may just be ending
    before = set(threading.enumerate())
    with closing(_segment(4096)):
        assert set(threading.enumerate()) <= before
