"""Transfers of payloads whose ciphertext has to be fetched: no worker waits for it."""

from __future__ import annotations

import ctypes
import os
import threading
from queue import SimpleQueue
from typing import TYPE_CHECKING

import pytest
from support.streams import seal

from sealcar.errors import NotAuthenticError, SealcarError, UnavailableError
from sealcar_server.sealing.derivation import PayloadKey
from sealcar_server.sealing.layout import SEGMENT
from sealcar_server.sealing.reader import SealedReader
from sealcar_server.sealing.scratch import Scratch
from sealcar_server.sealing.sealed_file import LocalFile
from sealcar_server.transfer.engine import Engine, Token
from sealcar_server.transfer.reading import RingRead, SealedSource
from sealcar_server.transfer.rings import SLOTS, Ring

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable, Iterator
    from pathlib import Path

KEY = PayloadKey(bytes(range(32)), b"ad")
PLAIN = os.urandom(12 * SEGMENT)
LAST = 12


class FarFile:
    """A file whose pieces come when they are told to; what was damaged on the way comes again."""

    waits = True

    def __init__(self, path: Path) -> None:
        self._file = LocalFile(os.open(path, os.O_RDONLY))
        self._lock = threading.Lock()
        self.here: set[int] = {0, LAST}
        self.asked: dict[int, tuple[Callable[[], None], Hashable]] = {}
        self.damaged: set[int] = set()
        self.again: set[int] = set()
        self.closed = False

    def size(self) -> int:
        return self._file.size()

    def read(self, target: memoryview, at: int, /) -> None:
        assert at // SEGMENT in self.here, "nobody reads what isn't here"
        self._file.read(target, at)
        if at // SEGMENT in self.damaged:
            target[0] ^= 1

    def ready(
        self, at: int, size: int, then: Callable[[], None], owner: Hashable = None, /
    ) -> bool:
        del size
        index = at // SEGMENT
        with self._lock:
            if index not in self.here:
                assert index not in self.asked, "a piece is asked for once"
                self.asked[index] = (then, owner)
            return index in self.here

    def doubt(self, at: int, size: int, /) -> bool:
        del size
        index = at // SEGMENT
        if index in self.again:
            return False
        self.again.add(index)
        self.here.discard(index)
        return True

    def come(self, index: int, *, healed: bool = True) -> None:
        with self._lock:
            then, _ = self.asked.pop(index)
            self.here.add(index)
            if healed:
                self.damaged.discard(index)
        then()

    def close(self) -> None:
        self.closed = True
        self._file.close()


class Client:
    """Copies out, gives slots back, remembers the end."""

    def __init__(self, engine: Engine, ring: Ring, reader: SealedReader) -> None:
        self.data = bytearray(reader.layout.plain_size)
        self.got = 0
        self.error: SealcarError | None = None
        self.over = threading.Event()
        self._engine, self._ring = engine, ring
        self.flow = RingRead(SealedSource(reader), ring, engine, self._announced, self._ended)
        self.flow.owner = 1000
        for slot in range(SLOTS):
            engine.put(self.flow, Token(slot))

    def _announced(self, slot: int, offset: int, size: int) -> None:
        self.data[offset : offset + size] = ctypes.string_at(self._ring.address(slot), size)
        self.got += 1
        self._engine.put(self.flow, Token(slot))

    def _ended(self, error: SealcarError | None) -> None:
        assert not self.over.is_set(), "an end is told once"
        self.error = error
        self.over.set()


@pytest.fixture
def engine() -> Iterator[Engine]:
    """One worker: if it waited, nothing else would go on."""
    engine = Engine(1)
    engine.start()
    yield engine
    engine.close()


@pytest.fixture
def far(tmp_path: Path) -> Iterator[tuple[FarFile, SealedReader]]:
    sealed = seal(tmp_path / "f", KEY, PLAIN)
    file = FarFile(tmp_path / "f")
    with SealedReader(
        file,
        KEY,
        commitment=sealed.commitment,
        plain_size=len(PLAIN),
        scratch=Scratch(),
    ) as reader:
        yield file, reader


def settled(engine: Engine) -> None:
    """Wait until the worker has done all that there is for it."""
    left: SimpleQueue[int] = SimpleQueue()
    more = True
    while more:
        engine.ask(lambda: left.put(engine.queued))
        more = left.get(timeout=10) > 0


def test_pieces_come_in_any_order_and_no_worker_waits_for_them(
    engine: Engine, far: tuple[FarFile, SealedReader]
) -> None:
    file, reader = far
    with Ring(client_writes=False) as ring:
        client = Client(engine, ring, reader)
        settled(engine)
        assert set(file.asked) == set(range(1, SLOTS + 1)), "what is here used no slot for long"
        assert {owner for _, owner in file.asked.values()} == {1000}
        while not client.over.is_set() and file.asked:
            file.come(max(file.asked))
            settled(engine)
        assert client.over.wait(10)
        assert client.error is None
        assert client.data == PLAIN


def test_what_was_damaged_on_the_way_is_fetched_once_more(
    engine: Engine, far: tuple[FarFile, SealedReader]
) -> None:
    file, reader = far
    file.here, file.damaged = set(range(LAST + 1)), {3}
    with Ring(client_writes=False) as ring:
        client = Client(engine, ring, reader)
        settled(engine)
        assert set(file.asked) == {3}
        assert client.got == LAST
        file.come(3)
        assert client.over.wait(10)
        assert client.error is None
        assert client.data == PLAIN


def test_what_is_damaged_the_second_time_too_ends_the_transfer(
    engine: Engine, far: tuple[FarFile, SealedReader]
) -> None:
    file, reader = far
    file.here, file.damaged = set(range(LAST + 1)), {3}
    with Ring(client_writes=False) as ring:
        client = Client(engine, ring, reader)
        settled(engine)
        file.come(3, healed=False)
        assert client.over.wait(10)
        assert isinstance(client.error, NotAuthenticError)


def test_a_transfer_that_is_stopped_while_it_waits_ends_once(
    engine: Engine, far: tuple[FarFile, SealedReader]
) -> None:
    file, reader = far
    with Ring(client_writes=False) as ring:
        client = Client(engine, ring, reader)
        settled(engine)
        client.flow.stop(UnavailableError("the client is gone"))
        assert client.over.wait(10)
        for index in list(file.asked):
            file.come(index)
        settled(engine)
        assert isinstance(client.error, UnavailableError)
        assert client.got == 1, "only the piece that was here"


def test_a_header_that_was_damaged_on_the_way_is_read_once_more(
    tmp_path: Path, far: tuple[FarFile, SealedReader]
) -> None:
    del far
    sealed = seal(tmp_path / "g", KEY, b"small")

    class Healing(FarFile):
        def doubt(self, at: int, size: int, /) -> bool:
            self.damaged.clear()
            return super().doubt(at, size)

        def read(self, target: memoryview, at: int, /) -> None:
            self.here.add(0)
            super().read(target, at)

    file = Healing(tmp_path / "g")
    file.damaged = {0}
    with SealedReader(
        file, KEY, commitment=sealed.commitment, plain_size=5, scratch=Scratch()
    ) as reader:
        assert reader.whole == b"small"
    assert file.closed
