"""Memory that is read while it still comes: who reads waits, and sees only what is there."""

from __future__ import annotations

import ctypes
import mmap
import os
import resource
import threading
import time
from typing import TYPE_CHECKING, Final

import pytest

from sealcar.errors import TruncatedError, WrongStateError
from sealcar.transfer.arriving import LEAST, ArrivingMemory
from sealcar.transfer.descriptors import Exported
from sealcar.transfer.userfaults import MissingPages

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    Arrived = Callable[[int, int], None]

SIZE: Final = LEAST + 12_345
_FUTURE: Final = 2  # MCL_FUTURE
PIECE: Final = 1_000_003  # none of them ends where a page does


@pytest.fixture
def memory() -> Iterator[ArrivingMemory]:
    try:
        made = ArrivingMemory(SIZE)
    except OSError as error:
        pytest.skip(f"no userfaultfd that moves pages here: {error}")
    with made:
        yield made


class Reader:
    """Copies bytes as native code does, without the interpreter lock."""

    def __init__(self, memory: ArrivingMemory, at: int, size: int) -> None:
        self._view = memory.view()[at : at + size]
        self._got = ctypes.create_string_buffer(size)
        self._thread = threading.Thread(target=self._copy)
        self._thread.start()

    def _copy(self) -> None:
        with Exported(self._view) as part:
            ctypes.memmove(self._got, part.address, part.size)

    def waits(self) -> bool:
        self._thread.join(0.05)
        return self._thread.is_alive()

    def got(self) -> bytes:
        self._thread.join(10)
        assert not self._thread.is_alive()
        return self._got.raw


def put(address: int, data: bytes, arrived: Arrived, offset: int) -> None:
    piece = data[offset : offset + PIECE]
    ctypes.memmove(address + offset, piece, len(piece))
    arrived(offset, len(piece))


def test_who_reads_a_part_waits_for_it_and_for_no_more(memory: ArrivingMemory) -> None:
    data = os.urandom(SIZE)
    early, late = Reader(memory, 100, 5000), Reader(memory, SIZE - 5000, 5000)

    def bring(address: int, arrived: Arrived) -> None:
        assert early.waits()
        for offset in range(0, SIZE - PIECE, PIECE):
            put(address, data, arrived, offset)
        assert early.got() == data[100:5100]
        assert late.waits()
        put(address, data, arrived, SIZE - SIZE % PIECE)

    memory.fill(bring)
    assert late.got() == data[-5000:]
    assert bytes(memory.view()) == data


def test_pieces_may_come_in_any_order(memory: ArrivingMemory) -> None:
    data = os.urandom(SIZE)

    def bring(address: int, arrived: Arrived) -> None:
        for offset in reversed(range(0, SIZE, PIECE)):
            put(address, data, arrived, offset)

    memory.fill(bring)
    assert bytes(memory.view()) == data


def test_who_waits_goes_on_with_zeros_when_it_breaks_off(memory: ArrivingMemory) -> None:
    first, last = Reader(memory, 100, 5000), Reader(memory, SIZE - 5000, 5000)

    def bring(address: int, arrived: Arrived) -> None:
        for offset in range(0, 3 * PIECE, PIECE):
            put(address, b"\1" * SIZE, arrived, offset)
        assert first.got() == b"\1" * 5000
        raise TruncatedError("cut")

    with pytest.raises(TruncatedError):
        memory.fill(bring)
    assert last.got() == bytes(5000)
    # and what had come is gone
    assert not any(memory.view())


def test_what_isn_t_all_there_is_an_error(memory: ArrivingMemory) -> None:
    with pytest.raises(WrongStateError, match="missing"):
        memory.fill(lambda address, arrived: put(address, bytes(SIZE), arrived, 0))
    assert not any(memory.view())


def test_nobody_waits_for_what_isn_t_brought(
    memory: ArrivingMemory,
) -> None:
    reader = Reader(memory, 0, SIZE)
    assert reader.waits()
    memory.close()
    memory.close()
    assert reader.got() == bytes(SIZE)
    assert memory.view().readonly


def test_pages_that_a_child_of_fork_has_come_all_the_same(memory: ArrivingMemory) -> None:
    data = os.urandom(SIZE)

    def bring(address: int, arrived: Arrived) -> None:
        ctypes.memmove(address, data, SIZE)
        out, into = os.pipe()
        child = os.fork()
        if not child:
            os.close(into)
            os.read(out, 1)
            os._exit(0)
        os.close(out)
        try:
            arrived(0, SIZE)
        finally:
            os.close(into)
            os.waitpid(child, 0)

    memory.fill(bring)
    assert bytes(memory.view()) == data


def test_what_can_t_be_watched_is_refused() -> None:
    with pytest.raises(OSError, match=r"."):
        MissingPages(4096 * 3 + 1, 4096)


@pytest.mark.parametrize("closes", [False, True])
def test_nobody_waits_for_a_child_of_fork_that_has_the_descriptor_too(
    memory: ArrivingMemory, *, closes: bool
) -> None:
    reader = Reader(memory, SIZE - 5000, 5000)
    out, into = os.pipe()
    child = os.fork()
    if not child:
        os.close(into)
        if closes:
            memory.close()  # the parent's goes on
        os.read(out, 1)
        os._exit(0)
    os.close(out)
    try:
        assert reader.waits()
        with pytest.raises(WrongStateError, match="missing"):
            memory.fill(lambda address, arrived: put(address, bytes(SIZE), arrived, 0))
        assert not reader.waits()
    finally:
        os.close(into)
        os.waitpid(child, 0)
    assert reader.got() == bytes(5000)


def test_pages_that_are_copied_take_no_memory_twice() -> None:
    pages = 64
    with _mapping(pages) as there, _mapping(pages) as beside, Exported(beside) as source:
        beside[:] = b"\7" * len(beside)
        shared = mmap.mmap(-1, mmap.PAGESIZE)
        child = os.fork()
        if not child:
            while not shared[0]:
                time.sleep(0.01)
            os._exit(0)
        try:
            with Exported(there) as target, MissingPages(target.address, target.size) as missing:
                missing.fill(target.address, source.address, source.size)
        finally:
            shared[0] = 1
            os.waitpid(child, 0)
        assert there[:] == b"\7" * len(there)
        assert not any(beside[:])


def _mapping(pages: int) -> mmap.mmap:
    return mmap.mmap(-1, pages * mmap.PAGESIZE, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)


def test_memory_that_is_there_from_the_start_is_none_to_wait_for() -> None:
    libc = ctypes.CDLL(None)
    if libc.mlockall(_FUTURE):
        pytest.skip("this process may not lock so much memory")
    try:
        with pytest.raises(OSError, match=r"."):
            ArrivingMemory(SIZE)
    finally:
        libc.munlockall()


def test_limited_addresses_are_left_to_those_who_need_them() -> None:
    limits = resource.getrlimit(resource.RLIMIT_AS)
    resource.setrlimit(resource.RLIMIT_AS, (1 << 46, limits[1]))
    try:
        with pytest.raises(OSError, match="addresses"):
            ArrivingMemory(SIZE)
    finally:
        resource.setrlimit(resource.RLIMIT_AS, limits)
