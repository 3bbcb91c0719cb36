"""Where a payload lands: on huge pages, which are asked for before its first byte."""

from __future__ import annotations

import mmap
import socket
import threading
from typing import TYPE_CHECKING, Final

import pytest
from support.areas import Area
from support.raw_streams import framed

from sealcar.errors import UnavailableError
from sealcar.transfer.descriptors import Exported
from sealcar.transfer.incoming import Incoming
from sealcar.transfer.memory import PrivateMemory, advise_huge
from sealcar.transfer.stream_connection import StreamConnection
from sealcar.v1 import common_pb2
from sealcar.v1 import data_socket_pb2 as pb

if TYPE_CHECKING:
    from collections.abc import Iterator

MIB: Final = 1 << 20
SIZE: Final = 8 * MIB
PAGE: Final = mmap.PAGESIZE


@pytest.fixture
def room() -> Iterator[mmap.mmap]:
    with mmap.mmap(-1, SIZE, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS) as made:
        yield made


@pytest.mark.parametrize("before", [0, 1, 64, PAGE - 1])
def test_a_large_destination_is_advised_within_its_whole_pages(
    room: mmap.mmap, before: int
) -> None:
    with Exported(room, writable=True) as whole:
        begin = whole.address + before
        advise_huge(begin, SIZE - PAGE - before)
        # what begins or ends in mid-page is somebody else's, too
        assert Area(whole.address).advised is not bool(before)
        assert Area(whole.address + PAGE).advised
        assert not Area(whole.address + SIZE - PAGE).advised


def test_a_small_destination_is_left_as_it_is(room: mmap.mmap) -> None:
    with Exported(room, writable=True) as whole:
        advise_huge(whole.address, 4 * MIB - 1)
        assert not Area(whole.address).advised
        advise_huge(whole.address, 4 * MIB)
        assert Area(whole.address).advised


def test_memory_of_ones_own_is_advised_and_untouched() -> None:
    memory = PrivateMemory(SIZE)
    area = Area(memory.address)
    assert (area.advised, area.resident) == (True, 0)
    memory.close()


def test_a_destination_is_advised_before_its_first_byte_comes(room: mmap.mmap) -> None:
    near, far = socket.socketpair()
    seen: list[tuple[bool, int]] = []

    def daemon() -> None:
        far.recv(1000)
        reading = pb.DaemonPacket(reading=pb.Reading(size=SIZE)).SerializeToString()
        far.sendall(framed(reading))
        # nothing of it was asked for but the size: let the other side come to where it waits
        while not Area(address).advised and near.fileno() >= 0:
            pass
        seen.append((Area(address).advised, Area(address).resident))
        far.close()

    with Exported(room, writable=True) as whole, near:
        address = whole.address
        thread = threading.Thread(target=daemon)
        thread.start()
        connection = StreamConnection(near, 10)
        incoming = Incoming(connection, common_pb2.Scope(), "x")
        with pytest.raises(UnavailableError, match="closed"):
            incoming.read_into(address)
        thread.join()
    assert seen == [(True, 0)]
