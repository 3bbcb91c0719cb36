"""Payloads in memory that has a path."""

from __future__ import annotations

import ctypes
import errno
import fcntl
import mmap
import os
import resource
from contextlib import closing
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Final

import pytest

from sealcar.errors import ExhaustedError, UnavailableError
from sealcar.transfer.descriptors import FIXED_SIZE, Seal, memory, seal, seals_of
from sealcar.transfer.memory import write
from sealcar.transfer.named import NamedMemory, filled
from sealcar_server.transfer.locking import PageLocks
from sealcar_server.transfer.segments import Segment

if TYPE_CHECKING:
    from collections.abc import Callable

DATA: Final = bytes(range(256)) * 8192  # two pieces
STRANGER: Final = 65_432
_DUMPABLE: Final = 4


def put(descriptor: int) -> None:
    buffer = ctypes.create_string_buffer(DATA, len(DATA))
    write(descriptor, 0, ctypes.addressof(buffer), len(DATA))


def made() -> NamedMemory:
    found = filled(len(DATA), put)
    assert found
    return found


def in_another_process(do: Callable[[], None], uid: int) -> int:
    """Return how a child of another uid ended."""
    child = os.fork()
    if not child:
        try:
            os.setresuid(uid, uid, uid)
            ctypes.CDLL(None).prctl(_DUMPABLE, 1, 0, 0, 0)
            do()
            os._exit(0)
        finally:
            os._exit(1)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


def test_it_is_read_by_its_path_and_whoever_has_it_open_keeps_it() -> None:
    with made() as named:
        assert named.read() == DATA
        assert Path(named.path).read_bytes() == DATA
        kept = mmap.mmap(os.open(named.path, os.O_RDONLY), 0, prot=mmap.PROT_READ)
    assert kept[:] == DATA
    kept.close()


def test_nobody_can_write_to_it_not_even_who_made_it() -> None:
    with made() as named:
        descriptor = int(named.path.rpartition("/")[2])
        assert seals_of(descriptor) & (FIXED_SIZE | Seal.WRITE | Seal.SEAL) == (
            FIXED_SIZE | Seal.WRITE | Seal.SEAL
        )
        assert fcntl.fcntl(descriptor, fcntl.F_GETFD) & fcntl.FD_CLOEXEC
        with pytest.raises(OSError, match="not permitted"):
            os.pwrite(descriptor, b"x", 0)


@pytest.mark.parametrize("seals", [Seal(0), FIXED_SIZE, Seal.WRITE])
def test_memory_that_can_still_be_changed_is_not_taken(seals: Seal) -> None:
    descriptor = memory("test", 5)
    seal(descriptor, seals)
    with pytest.raises(UnavailableError, match="can still be changed"):
        NamedMemory(descriptor, 5)
    os.close(descriptor)


def test_where_no_descriptor_is_left_an_error_of_ours_says_so() -> None:
    descriptor = memory("test", 5)
    seal(descriptor, FIXED_SIZE | Seal.WRITE)
    next_one = os.dup(descriptor)
    os.close(next_one)
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (next_one, before[1]))
    try:
        with pytest.raises(UnavailableError, match=os.strerror(errno.EMFILE)):
            NamedMemory(descriptor, 5)
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, before)
        os.close(descriptor)


def test_what_fails_while_it_is_filled_leaves_no_descriptor() -> None:
    def fail(descriptor: int) -> None:
        put(descriptor)
        raise ExhaustedError("no more")

    before = len(list(Path("/proc/self/fd").iterdir()))
    with pytest.raises(ExhaustedError, match="no more"):
        filled(len(DATA), fail)
    assert len(list(Path("/proc/self/fd").iterdir())) == before


def test_more_than_there_is_room_for_is_refused() -> None:
    with pytest.raises(ExhaustedError, match=os.strerror(errno.EPERM)):
        filled(len(DATA) - 1, put)


def test_a_process_that_may_make_no_such_file_has_none() -> None:
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (len(DATA) - 1, before[1]))
    try:
        assert filled(len(DATA), put) is None
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)


@pytest.mark.root
def test_a_segment_of_the_daemons_is_read_by_its_path_whatever_ones_uid_and_never_written() -> None:
    with closing(Segment(len(DATA), PageLocks())) as segment:
        segment.put(0, memoryview(DATA))
        segment.finish()
        descriptor = segment.descriptor()
        try:

            def open_it() -> None:
                with NamedMemory(descriptor, len(DATA)) as handed:
                    assert Path(handed.path).read_bytes() == DATA
                    with pytest.raises(PermissionError):
                        os.open(handed.path, os.O_RDWR)

            assert in_another_process(open_it, STRANGER) == 0
        finally:
            os.close(descriptor)


def test_it_stays_out_of_a_core_dump_wherever_it_is_mapped() -> None:
    with made() as named, Path(named.path).open("rb") as opened:
        maps = [
            mmap.mmap(opened.fileno(), 0, flags, mmap.PROT_READ)
            for flags in (mmap.MAP_PRIVATE, mmap.MAP_SHARED)
        ]
        named.keep_out_of_dumps()
        smaps = Path("/proc/self/smaps").read_text().split("VmFlags:")
        flags = [
            after.split("\n", 1)[0].split()
            for before, after in pairwise(smaps)
            if "/memfd:sealcar-payload" in before.split("\n", 1)[-1]
        ]
        assert len(flags) == len(maps)
        assert all("dd" in each for each in flags)
        for each in maps:
            each.close()
