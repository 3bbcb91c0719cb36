"""Rings, workers and real sealed files, without a socket in between."""

from __future__ import annotations

import ctypes
import os
import threading
from typing import TYPE_CHECKING

import pytest
from support.payload_packages import varied
from support.streams import opened, seal

from sealcar.errors import (
    NotAuthenticError,
    SealcarError,
    UnavailableError,
    WrongStateError,
)
from sealcar_server.sealing.derivation import PayloadKey
from sealcar_server.sealing.layout import FIRST_PIECE, PIECE, SEGMENT
from sealcar_server.sealing.writer import SealedWriter
from sealcar_server.transfer.engine import Engine, Token
from sealcar_server.transfer.reading import RingRead, SealedSource
from sealcar_server.transfer.rings import SLOTS, Ring
from sealcar_server.transfer.writing import PieceOrder, RingWrite

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from sealcar_server.sealing.scratch import Scratch

SIZES = (0, 1, FIRST_PIECE - 1, FIRST_PIECE, FIRST_PIECE + 1, FIRST_PIECE + PIECE, 20 << 20)


@pytest.fixture
def key() -> PayloadKey:
    return PayloadKey(b"k" * 32, b"associated")


@pytest.fixture
def engine() -> Iterator[Engine]:
    engine = Engine(3)
    engine.start()
    yield engine
    engine.close()


class Reader:
    """A client in the same process: copies out, gives slots back, remembers the end."""

    def __init__(self, engine: Engine, ring: Ring, size: int) -> None:
        self.data = bytearray(size)
        self.error: SealcarError | None = None
        self.pieces = 0
        self.over = threading.Event()
        self._engine, self._ring = engine, ring
        self._flow: RingRead | None = None

    def run(self, source: SealedSource) -> None:
        self._flow = RingRead(source, self._ring, self._engine, self.announced, self.ended)
        for slot in range(SLOTS):
            self._engine.put(self._flow, Token(slot))
        assert self.over.wait(20)

    def announced(self, slot: int, offset: int, size: int) -> None:
        self.pieces += 1
        self.data[offset : offset + size] = ctypes.string_at(self._ring.address(slot), size)
        assert self._flow
        self._engine.put(self._flow, Token(slot))

    def ended(self, error: SealcarError | None) -> None:
        assert not self.over.is_set(), "an end is told once"
        self.error = error
        self.over.set()


@pytest.mark.parametrize("size", SIZES)
def test_a_ring_brings_every_byte_of_a_sealed_file(
    tmp_path: Path, key: PayloadKey, engine: Engine, size: int
) -> None:
    plain = varied(size)
    sealed = seal(tmp_path / "f", key, plain)
    with Ring(client_writes=False) as ring, opened(tmp_path / "f", key, sealed) as reader:
        client = Reader(engine, ring, size)
        client.run(SealedSource(reader))
    assert client.error is None
    assert client.data == plain


class _Other:
    """A job of somebody else."""

    owner = "other"

    def work(self, token: Token, scratch: Scratch) -> None:
        del token, scratch


@pytest.mark.parametrize("alone", [True, False])
def test_a_large_slot_carries_several_pieces_unless_others_wait_for_a_worker(
    tmp_path: Path, key: PayloadKey, *, alone: bool
) -> None:
    plain = varied(20 << 20)
    sealed = seal(tmp_path / "f", key, plain)
    engine = Engine(1)
    sizes: list[int] = []
    emptied: list[Token] = []
    data = bytearray(len(plain))

    def announced(slot: int, offset: int, size: int) -> None:
        sizes.append(size)
        emptied.append(Token(slot))
        data[offset : offset + size] = ctypes.string_at(ring.address(slot), size)
        if not alone:
            engine.put(_Other(), Token(0))
        # as a client does, which gives back several at once
        if len(emptied) > 1:
            engine.put(flow, *emptied)
            emptied.clear()

    with (
        Ring.of_size(SLOTS, client_writes=False) as ring,
        opened(tmp_path / "f", key, sealed) as reader,
    ):
        assert (ring.slots, ring.size) == (SLOTS // 2, SLOTS * SEGMENT)
        over = threading.Event()
        flow = RingRead(SealedSource(reader), ring, engine, announced, lambda _: over.set())
        if not alone:
            engine.put(_Other(), Token(0), Token(0))
        engine.put(flow, *map(Token, range(ring.slots)))
        engine.start()
        assert over.wait(20)
        engine.close()
    assert data == plain
    if alone:
        assert sizes == [FIRST_PIECE + PIECE, *[2 * PIECE] * 9, len(plain) - 20 * PIECE + 40]
    else:
        assert max(sizes) == PIECE, "each had its turn by the piece"


@pytest.mark.parametrize("size", [FIRST_PIECE, FIRST_PIECE + 1, SEGMENT, SEGMENT + 1])
def test_what_fits_into_one_slot_comes_by_one_token_whoever_waits(
    tmp_path: Path, key: PayloadKey, size: int
) -> None:
    plain = varied(size)
    sealed = seal(tmp_path / "f", key, plain)
    engine, over = Engine(1), threading.Event()
    found: list[bytes] = []
    with Ring(client_writes=False) as ring, opened(tmp_path / "f", key, sealed) as reader:
        source = SealedSource(reader)

        def announced(slot: int, _offset: int, size: int) -> None:
            found.append(ctypes.string_at(ring.address(slot), size))

        flow = RingRead(source, ring, engine, announced, lambda _: over.set())
        assert source.in_one == (size <= SEGMENT)
        engine.put(flow, *map(Token, range(1 if source.in_one else 2)))
        engine.put(_Other(), Token(0))
        engine.start()
        assert over.wait(20)
        engine.close()
    assert b"".join(found) == plain
    assert len(found) == (1 if source.in_one else 2)


def test_as_many_workers_wake_as_there_are_tokens(engine: Engine) -> None:
    together = threading.Barrier(3)

    class Meeting:
        owner = None

        def work(self, token: Token, scratch: Scratch) -> None:
            del token, scratch
            together.wait(5)

    engine.put(Meeting(), Token(0), Token(1))
    together.wait(5)


def test_forged_plaintext_never_reaches_a_slot(
    tmp_path: Path, key: PayloadKey, engine: Engine
) -> None:
    sealed = seal(tmp_path / "f", key, bytes(5 * SEGMENT))
    with (tmp_path / "f").open("r+b") as file:
        file.seek(2 * SEGMENT + 100)
        file.write(b"forged")
    with Ring(client_writes=False) as ring, opened(tmp_path / "f", key, sealed) as reader:
        for slot in range(SLOTS):
            ctypes.memset(ring.address(slot), 0xEE, SEGMENT)
        client = Reader(engine, ring, 5 * SEGMENT)
        client.run(SealedSource(reader))
        # forged bytes would decrypt to neither the zeros that were sealed nor what lay there
        for slot in range(SLOTS):
            assert set(ctypes.string_at(ring.address(slot), SEGMENT)) <= {0, 0xEE}
    assert isinstance(client.error, NotAuthenticError)
    assert client.error.place.offset == 2 * PIECE - 40


def test_a_client_that_is_gone_ends_the_transfer_once(
    tmp_path: Path, key: PayloadKey, engine: Engine
) -> None:
    sealed = seal(tmp_path / "f", key, varied(10 << 20))
    ends: list[SealcarError | None] = []
    over = threading.Event()

    def gone(*_: int) -> None:
        raise UnavailableError("gone")

    def ended(error: SealcarError | None) -> None:
        ends.append(error)
        over.set()

    with Ring(client_writes=False) as ring, opened(tmp_path / "f", key, sealed) as reader:
        flow = RingRead(SealedSource(reader), ring, engine, gone, ended)
        for slot in range(SLOTS):
            engine.put(flow, Token(slot))
        assert over.wait(10)
        flow.stop(WrongStateError("late"))
        engine.close()
    assert [type(error) for error in ends] == [UnavailableError]


@pytest.mark.parametrize("size", SIZES)
def test_what_a_client_writes_is_sealed_whole(
    tmp_path: Path, key: PayloadKey, engine: Engine, size: int
) -> None:
    plain = varied(size)
    fd = os.open(tmp_path / "f", os.O_RDWR | os.O_CREAT, 0o600)
    over = threading.Event()
    ends: list[SealcarError | None] = []
    free = threading.Semaphore(SLOTS)
    slots = list(range(SLOTS))

    def freed(slot: int) -> None:
        # what the client does to a slot after it was taken makes no difference
        ctypes.memset(ring.address(slot), 0xAA, SEGMENT)
        slots.append(slot)
        free.release()

    def ended(error: SealcarError | None) -> None:
        ends.append(error)
        over.set()

    with Ring(client_writes=True) as ring, SealedWriter(fd, key) as writer:
        flow = RingWrite(writer, ring, freed, ended)
        order = PieceOrder(size)
        while not order.complete:
            room = PIECE if order.size else FIRST_PIECE
            piece = plain[order.size : order.size + room]
            assert free.acquire(timeout=10)
            slot = slots.pop()
            ctypes.memmove(ring.address(slot), piece, len(piece))
            last = order.size + len(piece) == size
            index = order.take(order.size, len(piece), last=last)
            if last:
                flow.expect(index + 1)
            engine.put(flow, Token(slot, index, len(piece), last))
        assert over.wait(20)
        assert ends == [None]
        sealed = writer.finish()
    with Ring(client_writes=False) as ring, opened(tmp_path / "f", key, sealed) as reader:
        client = Reader(engine, ring, size)
        client.run(SealedSource(reader))
    assert client.data == plain


@pytest.mark.parametrize(
    ("declared", "pieces"),
    [
        (None, [(0, 10, False)]),  # not full, though not the last
        (None, [(1, FIRST_PIECE, False)]),  # a gap
        (None, [(0, FIRST_PIECE + 1, True)]),  # too long
        (None, [(0, FIRST_PIECE, False), (FIRST_PIECE, 0, True)]),  # an empty last one
        (None, [(0, FIRST_PIECE, False), (0, PIECE, False)]),  # the same again
        (None, [(0, 10, True), (10, 10, True)]),  # after the last
        (5, [(0, 10, True)]),  # more than declared
        (50, [(0, 10, True)]),  # less than declared
        (FIRST_PIECE, [(0, FIRST_PIECE, False)]),  # all is there, but it isn't the last
    ],
)
def test_pieces_out_of_order_or_of_another_size_are_refused(
    declared: int | None, pieces: list[tuple[int, int, bool]]
) -> None:
    order = PieceOrder(declared)
    *before, bad = pieces
    for offset, size, last in before:
        order.take(offset, size, last=last)
    with pytest.raises(WrongStateError):
        order.take(bad[0], bad[1], last=bad[2])


class _Asking:
    """A job that says how nice its worker is."""

    owner = None

    def __init__(self) -> None:
        self.told = threading.Event()
        self.niceness = self.policy = -1

    def work(self, token: Token, scratch: Scratch) -> None:
        del token, scratch
        self.niceness = os.getpriority(os.PRIO_PROCESS, threading.get_native_id())
        self.policy = os.sched_getscheduler(0)
        self.told.set()


def test_there_is_one_worker_for_each_core_that_the_process_may_use() -> None:
    allowed = os.sched_getaffinity(0)
    assert Engine().workers == len(allowed)
    os.sched_setaffinity(0, {min(allowed)})
    try:
        assert Engine().workers == 1
    finally:
        os.sched_setaffinity(0, allowed)


def test_workers_do_without_a_policy_where_a_filter_forbids_to_ask_for_one(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def forbidden(*_: object) -> None:
        raise PermissionError

    monkeypatch.setattr(os, "sched_getscheduler", forbidden)
    engine, answered = Engine(1), threading.Event()
    engine.start()
    engine.ask(answered.set)
    assert answered.wait(5)
    engine.close()


def test_workers_give_way_to_the_threads_that_answer(engine: Engine) -> None:
    job = _Asking()
    engine.put(job, Token(0))
    assert job.told.wait(5)
    assert job.niceness == max(os.getpriority(os.PRIO_PROCESS, os.getpid()), 10)
    assert job.policy == os.SCHED_BATCH
    assert os.sched_getscheduler(0) == os.SCHED_OTHER
