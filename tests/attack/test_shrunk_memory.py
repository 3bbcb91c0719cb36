"""Whoever reads shared memory isn't ended by who made it: it is sealed, or it isn't touched."""

from __future__ import annotations

import contextlib
import ctypes
import os
import signal
import socket
import subprocess
import sys
from typing import TYPE_CHECKING, Final

import pytest
from support.daemon import environment

from sealcar.transfer.descriptors import FIXED_SIZE, Seal, memory, read_only, seal

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

SIZE: Final = 4 << 20
SLOT: Final = 1 << 20
WHOLE: Final = FIXED_SIZE | Seal.WRITE
_PUNCH: Final = 0x02 | 0x01  # FALLOC_FL_PUNCH_HOLE with its FALLOC_FL_KEEP_SIZE
_libc: Final = ctypes.CDLL(None, use_errno=True)
_libc.fallocate.argtypes = [ctypes.c_int, ctypes.c_int, ctypes.c_int64, ctypes.c_int64]
# takes what it is handed as a client would, says how that went, and touches all of it when told to
READER: Final = """
import ctypes, mmap, socket, sys
from sealcar.errors import UnavailableError
from sealcar.transfer.descriptors import Exported
from sealcar.transfer.rings import AttachedRing
from sealcar.transfer.segments import SegmentMemory
how, size, slot = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
channel = socket.socket(fileno=0)
_, (descriptor,), _, _ = socket.recv_fds(channel, 10, 1)
try:
    if how == "segment":
        held = SegmentMemory(descriptor, size)
        address = held.address
    elif how == "trusting":
        held = mmap.mmap(descriptor, size, prot=mmap.PROT_READ)
        with Exported(held) as whole:
            address = whole.address
    else:
        held = AttachedRing(descriptor, size // slot, slot, writable=how == "write ring")
        address = held.address(0, slot)
except UnavailableError:
    channel.send(b"refused")
    sys.exit()
channel.send(b"mapped")
channel.recv(10)
found = {bytes((ctypes.c_char * 1).from_address(address + at)) for at in range(0, size, 4096)}
channel.send(b"touched " + b"".join(sorted(found)))
"""


def shrink(descriptor: int) -> None:
    os.ftruncate(descriptor, 0)


def punch(descriptor: int) -> None:
    if _libc.fallocate(descriptor, _PUNCH, 0, SIZE):
        raise OSError(ctypes.get_errno(), "no hole")


def grow_and_shrink(descriptor: int) -> None:
    os.ftruncate(descriptor, 2 * SIZE)
    os.ftruncate(descriptor, SLOT)


def told(how: str, made: int, handed: int, harm: Callable[[int], None]) -> tuple[str, int]:
    """Hand memory to a reader, do harm to it, and return what the reader said, and its end."""
    near, far = socket.socketpair()
    with near, far:
        process = subprocess.Popen(
            [sys.executable, "-c", READER, how, str(SIZE), str(SLOT)],
            stdin=far.fileno(),
            env=environment(),
            stderr=subprocess.DEVNULL,
        )
        far.close()
        near.settimeout(20)
        socket.send_fds(near, [b"memory"], [handed])
        said = near.recv(100)
        with contextlib.suppress(OSError):
            harm(made)
        if said == b"mapped":
            near.send(b"touch")
            said = near.recv(100)
        return said.decode(), process.wait(20)


def handed_over(seals: Seal, how: str, harm: Callable[[int], None]) -> tuple[str, int]:
    made = memory("hostile", SIZE)
    try:
        os.pwrite(made, b"x" * SIZE, 0)
        if seals:
            seal(made, seals)
        handed = os.dup(made) if how == "write ring" else read_only(made)
        try:
            return told(how, made, handed, harm)
        finally:
            os.close(handed)
    finally:
        os.close(made)


@pytest.mark.parametrize("how", ["segment", "read ring", "write ring"])
@pytest.mark.parametrize("seals", [Seal(0), Seal.SHRINK, Seal.GROW])
def test_memory_that_can_still_shrink_is_refused(seals: Seal, how: str) -> None:
    assert handed_over(seals, how, shrink) == ("refused", 0)


@pytest.mark.parametrize("seals", [Seal.WRITE, Seal.WRITE | Seal.SHRINK, FIXED_SIZE])
def test_a_segment_that_can_still_change_is_refused(seals: Seal) -> None:
    assert handed_over(seals, "segment", punch) == ("refused", 0)


@pytest.mark.parametrize("harm", [shrink, punch, grow_and_shrink])
@pytest.mark.parametrize(
    ("how", "seals"), [("segment", WHOLE), ("read ring", FIXED_SIZE), ("write ring", FIXED_SIZE)]
)
def test_what_is_mapped_can_be_touched_whatever_its_maker_does_to_it(
    how: str, seals: Seal, harm: Callable[[int], None]
) -> None:
    said, status = handed_over(seals, how, harm)
    # only a ring, which is looked at piece by piece, can be emptied; its size stays
    emptied = harm is punch and seals == FIXED_SIZE
    assert (said, status) == ("touched \0" if emptied else "touched x", 0)


@pytest.mark.parametrize("how", ["segment", "read ring"])
def test_a_file_on_the_disk_is_no_shared_memory(tmp_path: Path, how: str) -> None:
    path = tmp_path / "file"
    path.write_bytes(b"x" * SIZE)
    made = os.open(path, os.O_RDWR)
    try:
        assert told(how, made, made, shrink) == ("refused", 0)
    finally:
        os.close(made)


@pytest.mark.parametrize("how", ["segment", "read ring", "write ring"])
def test_memory_of_another_size_than_announced_is_refused(how: str) -> None:
    made = memory("short", SIZE - 4096)
    try:
        seal(made, FIXED_SIZE | (Seal.WRITE if how == "segment" else Seal(0)))
        assert told(how, made, made, shrink) == ("refused", 0)
    finally:
        os.close(made)


def test_a_reader_that_trusts_what_it_gets_is_ended_by_it() -> None:
    # so the tests above would see it
    said, status = handed_over(Seal(0), "trusting", shrink)
    assert (said, status) == ("", -signal.SIGBUS)
