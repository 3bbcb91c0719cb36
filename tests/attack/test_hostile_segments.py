"""What is shared can be changed by nobody, and had by nobody who may not read it."""

from __future__ import annotations

import ctypes
import fcntl
import mmap
import os
import subprocess
import sys
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Final

import pytest
from support.daemon import Daemon, environment
from support.payload_packages import PACKAGE, publish, varied
from support.raw_clients import SCOPE, RawClient, memfds, until
from support.unharmed import unharmed

from sealcar.admin import Admin
from sealcar.errors import UnavailableError
from sealcar.transfer.descriptors import (
    FIXED_SIZE,
    Exported,
    Seal,
    memory,
    read_only,
    seal,
    seals_of,
)
from sealcar.transfer.segments import SegmentMemory
from sealcar.v1 import common_pb2
from sealcar.v1 import data_socket_pb2 as pb

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from sealcar import MappedPayload

WRONG_STATE: Final = common_pb2.ERROR_REASON_WRONG_STATE
BIG: Final = varied(20 << 20)
STRANGER: Final = 65_432
# asks as somebody else, and says what comes
STRANGERS: Final = """
import os, sys
from pathlib import Path
from types import SimpleNamespace
sys.path.insert(0, sys.argv[1])
from support.raw_clients import SCOPE, RawClient
from sealcar.v1 import common_pb2, data_socket_pb2 as pb
uid = int(sys.argv[3])
os.setgroups([]); os.setresgid(uid, uid, uid); os.setresuid(uid, uid, uid)
with RawClient(SimpleNamespace(socket=Path(sys.argv[2]))) as client:
    client.send(pb.ClientPacket(segment=pb.SegmentRequest(scope=SCOPE, name="big")))
    packet, descriptor = client.receive()
    reason = common_pb2.ErrorReason.Name(packet.error.reason)
    print(packet.WhichOneof("packet"), reason, descriptor, end="")
"""
_libc: Final = ctypes.CDLL(None, use_errno=True)


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Daemon]:
    with Daemon(tmp_path_factory.mktemp("d"), reachable=os.geteuid() == 0) as daemon:
        with daemon.connect(peer_uid=os.getuid()) as client:
            publish(client, {"big": BIG, "small": b"small"})
        yield daemon


@pytest.fixture
def daemon(shared: Daemon) -> Iterator[Daemon]:
    with unharmed(shared):
        yield shared
        # segments that nobody has go with a lock
        with Admin(shared.admin, peer_uid=os.getuid()) as admin:
            admin.lock()
            admin.unlock()


def ask(client: RawClient, name: str = "big") -> None:
    request = pb.SegmentRequest(scope=SCOPE, name=name)
    client.send(pb.ClientPacket(segment=request))


def handed(client: RawClient, name: str = "big") -> int:
    """Return the descriptor of a segment."""
    ask(client, name)
    while True:
        packet, descriptor = client.receive()
        assert packet
        if descriptor is not None:
            assert packet.segment.size == os.fstat(descriptor).st_size
            return descriptor
        assert packet.WhichOneof("packet") == "filling", packet


@contextmanager
def shared_by_somebody_honest(daemon: Daemon) -> Iterator[MappedPayload]:
    client = daemon.connect(peer_uid=os.getuid())
    with client, client.scope(PACKAGE).map("big", shared=True) as mapped:
        yield mapped


def acknowledge(client: RawClient) -> None:
    client.send(pb.ClientPacket(segment_received=pb.SegmentReceived()))


def put(descriptor: int) -> None:
    os.pwrite(descriptor, b"forged", 0)


def map_for_writing(descriptor: int) -> None:
    mmap.mmap(descriptor, len(BIG)).close()


def unprotect(descriptor: int) -> None:
    with mmap.mmap(descriptor, len(BIG), prot=mmap.PROT_READ) as mapped, Exported(mapped) as whole:
        access = mmap.PROT_READ | mmap.PROT_WRITE
        failed = _libc.mprotect(ctypes.c_void_p(whole.address), ctypes.c_size_t(4096), access)
    refuse(failed)


def drop_pages(descriptor: int) -> None:
    with mmap.mmap(descriptor, len(BIG), prot=mmap.PROT_READ) as mapped:
        mapped.madvise(mmap.MADV_REMOVE)


def refuse(failed: int) -> None:
    if failed:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))


def shrink(descriptor: int) -> None:
    os.ftruncate(descriptor, 0)


def grow(descriptor: int) -> None:
    os.ftruncate(descriptor, 2 * len(BIG))


def punch(descriptor: int) -> None:
    keep_size, punch_hole = 1, 2
    at, size = ctypes.c_int64(0), ctypes.c_int64(4096)
    refuse(_libc.fallocate(descriptor, keep_size | punch_hole, at, size))


def add_seals(descriptor: int) -> None:
    fcntl.fcntl(descriptor, fcntl.F_ADD_SEALS, int(Seal.FUTURE_WRITE))


CHANGES: Final = (
    put,
    map_for_writing,
    unprotect,
    drop_pages,
    shrink,
    grow,
    punch,
    add_seals,
)


@pytest.mark.parametrize("change", CHANGES)
def test_nobody_changes_a_segment_even_as_the_daemons_uid(
    daemon: Daemon, change: Callable[[int], None]
) -> None:
    with RawClient(daemon) as client:
        descriptor = handed(client)
        os.fchmod(descriptor, 0o600)
        again = os.open(f"/proc/self/fd/{descriptor}", os.O_RDWR)
        try:
            for each in (descriptor, again):
                with pytest.raises(OSError, match=r"not permitted|Permission|Bad file|Invalid"):
                    change(each)
        finally:
            os.close(again)
            os.close(descriptor)
        acknowledge(client)
    with (
        daemon.connect(peer_uid=os.getuid()) as honest,
        honest.scope(PACKAGE).map("big", shared=True) as mapped,
    ):
        assert mapped.view == BIG


def test_a_segment_has_every_seal_when_it_is_handed_over(daemon: Daemon) -> None:
    with RawClient(daemon) as client:
        descriptor = handed(client)
        assert seals_of(descriptor) >= FIXED_SIZE | Seal.WRITE | Seal.SEAL
        assert fcntl.fcntl(descriptor, fcntl.F_GETFL) & os.O_ACCMODE == os.O_RDONLY
        os.close(descriptor)
        acknowledge(client)


def test_a_segment_counts_as_long_as_anybody_keeps_a_bare_reference_to_it(daemon: Daemon) -> None:
    """Who opens it anew by O_PATH has it neither open nor mapped, and keeps its memory."""
    with RawClient(daemon) as client, daemon.connect(peer_uid=os.getuid()) as watcher:
        before = watcher.state().memory
        descriptor = handed(client)
        acknowledge(client)
        reference = os.open(f"/proc/self/fd/{descriptor}", os.O_PATH)
        os.close(descriptor)
        with Admin(daemon.admin, peer_uid=os.getuid()) as admin:
            admin.lock()
            admin.unlock()
        until(lambda: memfds(daemon.pid) == 0)
        assert watcher.state().memory >= before + len(BIG)
        os.close(reference)
        until(lambda: watcher.state().memory == before)


@pytest.mark.root
def test_a_uid_without_a_grant_gets_no_segment_even_if_it_is_there(daemon: Daemon) -> None:
    with (
        daemon.connect(peer_uid=os.getuid()) as honest,
        honest.scope(PACKAGE).map("big", shared=True) as mapped,
    ):
        before = daemon.metric("sealcar_payload_bytes_total", direction="read", delivery="segment")
        tests, socket = str(Path(__file__).parent.parent), str(daemon.socket)
        done = subprocess.run(
            [sys.executable, "-c", STRANGERS, tests, socket, str(STRANGER)],
            env=environment(),
            capture_output=True,
            text=True,
            check=True,
        )
        assert done.stdout == "error ERROR_REASON_NOT_FOUND None"
        after = daemon.metric("sealcar_payload_bytes_total", direction="read", delivery="segment")
        assert (after, mapped.size) == (before, len(BIG))


def test_one_segment_at_a_time_is_under_way_to_a_client(daemon: Daemon) -> None:
    with RawClient(daemon) as client:
        os.close(handed(client))
        ask(client, "small")
        assert client.error().reason == WRONG_STATE
        assert client.closed()


@pytest.mark.parametrize("before", ["nothing", "segment", "ring"])
def test_an_acknowledgement_out_of_turn_closes(daemon: Daemon, before: str) -> None:
    with RawClient(daemon) as client:
        if before == "segment":
            os.close(handed(client))
            acknowledge(client)
        elif before == "ring":
            client.read("big")
            assert client.packet().WhichOneof("packet") == "ring"
        acknowledge(client)
        assert client.error().reason == WRONG_STATE
        assert client.closed()


def test_who_cancels_hears_of_it_or_gets_his_segment(daemon: Daemon) -> None:
    for _ in range(5):
        with RawClient(daemon) as client:
            ask(client)
            client.send(pb.ClientPacket(cancel=pb.Cancel()))
            packet, descriptor = client.receive()
            while packet and packet.WhichOneof("packet") == "filling":
                packet, descriptor = client.receive()
            assert packet
            if descriptor is None:
                assert packet.error.reason == WRONG_STATE
            else:
                os.close(descriptor)
                acknowledge(client)
            ask(client, "small")
            kind = client.kind()
            assert kind == "segment"


def test_many_who_ask_and_go_leave_neither_memory_nor_descriptors(daemon: Daemon) -> None:
    for _ in range(30):
        with RawClient(daemon) as client:
            ask(client)
    with (
        daemon.connect(peer_uid=os.getuid()) as honest,
        honest.scope(PACKAGE).map("big", shared=True) as mapped,
    ):
        assert mapped.view == BIG
    until(lambda: daemon.metric("sealcar_memory_bytes") <= len(BIG) + 4096)


def test_a_client_maps_no_segment_that_could_change_or_has_another_size() -> None:
    descriptor = memory("forged", 8192)
    try:
        for seals in (Seal(0), FIXED_SIZE, Seal.WRITE):
            seal(descriptor, seals)
            reading = read_only(descriptor)
            try:
                if seals is not Seal.WRITE:
                    with pytest.raises(UnavailableError, match="changed"):
                        SegmentMemory(reading, 8192)
                    continue
                for size in (0, 4096, 8191, 12288):
                    with pytest.raises(UnavailableError, match="size"):
                        SegmentMemory(reading, size)
                SegmentMemory(reading, 8192).close()
            finally:
                os.close(reading)
    finally:
        os.close(descriptor)
    with (
        Path("/proc/self/exe").open("rb") as file,
        pytest.raises(UnavailableError, match="changed"),
    ):
        SegmentMemory(file.fileno(), 8192)
