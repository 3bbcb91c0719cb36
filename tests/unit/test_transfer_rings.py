from __future__ import annotations

import ctypes
import mmap
import os
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from sealcar.errors import UnavailableError
from sealcar.transfer.descriptors import (
    FIXED_SIZE,
    Seal,
    memory,
    receive,
    seal,
    seals_of,
    send_with_descriptor,
)
from sealcar.transfer.rings import AttachedRing
from sealcar_server.sealing.layout import SEGMENT
from sealcar_server.transfer.rings import SIZE, SLOTS, Ring


def attach(ring: Ring) -> AttachedRing:
    return AttachedRing.take(ring.take_descriptor(), SLOTS, SEGMENT, writable=ring.client_writes)


@pytest.mark.parametrize("client_writes", [False, True])
def test_both_sides_see_the_same_slots(client_writes: bool) -> None:  # noqa: FBT001  (parametrized)
    with Ring(client_writes=client_writes) as ring:
        theirs = attach(ring)
        for slot in (0, SLOTS - 1):
            writer, reader = ring.address(slot), theirs.address(slot, SEGMENT)
            if client_writes:
                writer, reader = reader, writer
            ctypes.memmove(writer, b"slot %d" % slot, 6)
            assert ctypes.string_at(reader, 6) == b"slot %d" % slot
        theirs.close()


@pytest.mark.parametrize("client_writes", [False, True])
def test_nobody_can_change_a_rings_size(client_writes: bool) -> None:  # noqa: FBT001  (parametrized)
    with Ring(client_writes=client_writes) as ring:
        descriptor = ring.take_descriptor()
        assert seals_of(descriptor) & FIXED_SIZE == FIXED_SIZE
        assert Seal.SEAL in seals_of(descriptor)
        for size in (0, SIZE - 1, SIZE + 1):
            with pytest.raises(OSError, match=r"not permitted|Invalid argument"):
                os.ftruncate(descriptor, size)
        os.close(descriptor)


def test_no_client_can_write_to_the_ring_that_it_reads() -> None:
    with Ring(client_writes=False) as ring:
        descriptor = ring.take_descriptor()
        with pytest.raises(OSError, match="Bad file descriptor"):
            os.pwrite(descriptor, b"x", 0)
        with pytest.raises(OSError, match="denied"):
            mmap.mmap(descriptor, SIZE)
        # the same uid, or root, may open it anew for writing; the seal holds all the same
        again = os.open(f"/proc/self/fd/{descriptor}", os.O_RDWR)
        with pytest.raises(OSError, match="not permitted"):
            os.pwrite(again, b"x", 0)
        with pytest.raises(OSError, match="not permitted"):
            mmap.mmap(again, SIZE)
        os.close(again)
        os.close(descriptor)


@pytest.mark.parametrize("seals", [Seal(0), Seal.SHRINK, Seal.GROW, Seal.WRITE])
def test_a_client_maps_no_ring_whose_size_could_change(seals: Seal) -> None:
    descriptor = memory("test", SIZE)
    seal(descriptor, seals)
    with pytest.raises(UnavailableError, match="change its size"):
        AttachedRing.take(descriptor, SLOTS, SEGMENT, writable=False)
    with pytest.raises(OSError, match="Bad file"):
        os.fstat(descriptor)


@pytest.mark.parametrize(("slots", "slot_size"), [(0, SEGMENT), (SLOTS + 1, SEGMENT), (1, 1)])
def test_a_client_maps_no_ring_of_another_size_than_announced(slots: int, slot_size: int) -> None:
    descriptor = memory("test", SIZE)
    seal(descriptor, FIXED_SIZE)
    with pytest.raises(UnavailableError, match="size that was announced"):
        AttachedRing.take(descriptor, slots, slot_size, writable=False)


@pytest.mark.parametrize(("slot", "size"), [(SLOTS, 1), (-1, 1), (0, SEGMENT + 1), (0, -1)])
def test_a_client_touches_nothing_outside_the_ring(slot: int, size: int) -> None:
    with Ring(client_writes=False) as ring:
        theirs = attach(ring)
        with pytest.raises(UnavailableError, match="outside"):
            theirs.address(slot, size)
        theirs.close()


def test_a_descriptor_is_received_close_on_exec_and_only_one() -> None:
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    with ours, theirs, Ring(client_writes=False) as ring:
        descriptor = ring.take_descriptor()
        send_with_descriptor(ours, b"ring", descriptor, 0)
        data, received = receive(theirs)
        assert data == b"ring"
        assert received is not None
        assert not os.get_inheritable(received)
        os.close(received)
        before = len(list(Path("/proc/self/fd").iterdir()))
        socket.send_fds(ours, [b"rings"], [descriptor, descriptor])
        with pytest.raises(UnavailableError, match="over the limits"):
            receive(theirs)
        assert len(list(Path("/proc/self/fd").iterdir())) == before, "nothing stays open"
        os.close(descriptor)


def test_a_ring_is_held_as_long_as_its_descriptor_or_a_map_of_it_lives() -> None:
    with Ring(client_writes=False) as ring:
        descriptor = ring.take_descriptor()
        assert ring.held
        theirs = AttachedRing.take(descriptor, SLOTS, SEGMENT, writable=False)
        ring.give_up()
        assert ring.held
        theirs.close()
        assert not ring.held


def test_the_pages_of_a_ring_that_was_given_up_are_gone_where_the_client_wrote() -> None:
    with Ring(client_writes=True) as ring:
        theirs = attach(ring)
        ctypes.memset(theirs.address(0, 1), 0x55, SEGMENT)
        ring.give_up()
        assert ctypes.string_at(theirs.address(0, 1), 1) == b"\0"
        theirs.close()


OPENS_AGAIN = """
import os, threading
from sealcar_server.transfer.rings import Ring
ring = Ring(client_writes=False)
descriptor = ring.take_descriptor()
path = os.open(f"/proc/self/fd/{descriptor}", os.O_PATH)
os.close(descriptor)
asking = True
def ask():
    while asking:
        ring.held
asker = threading.Thread(target=ask)
asker.start()
while True:
    try:
        os.close(os.open(f"/proc/self/fd/{path}", os.O_RDONLY | os.O_NONBLOCK))
    except BlockingIOError:  # it met the daemon's question
        break
asking = False
asker.join()
"""


def test_opening_a_ring_while_the_daemon_asks_who_has_it_does_not_end_the_daemon() -> None:
    subprocess.run([sys.executable, "-c", OPENS_AGAIN], check=True, timeout=60)
