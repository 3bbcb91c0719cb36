"""Slots that come back in any order, a few at a time: every byte comes once, and none is lost."""

from __future__ import annotations

import ctypes
import queue
import threading
from contextlib import ExitStack
from typing import TYPE_CHECKING, Final, TypeAlias

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.payload_packages import varied
from support.streams import opened, seal

from sealcar.errors import SealcarError, WrongStateError
from sealcar_server.sealing.derivation import PayloadKey
from sealcar_server.sealing.layout import FIRST_PIECE, PIECE, SEGMENT
from sealcar_server.transfer.engine import Engine, Token
from sealcar_server.transfer.reading import RingRead, SealedSource
from sealcar_server.transfer.rings import MANY, SLOTS, Ring

if TYPE_CHECKING:
    import random
    from collections.abc import Iterator

    from sealcar_server.sealing.reader import SealedReader
    from sealcar_server.sealing.scratch import Scratch

SIZES: Final = (
    FIRST_PIECE,
    FIRST_PIECE + 1,
    SEGMENT,
    SEGMENT + 1,
    # with few pieces and with many, and with the last one alone in its slot
    FIRST_PIECE + (MANY - 2) * PIECE,
    FIRST_PIECE + (MANY - 1) * PIECE,
    FIRST_PIECE + MANY * PIECE,
    FIRST_PIECE + MANY * PIECE + 1,
)
PATIENCE: Final = 5
CHANCE: Final = 0.5
_Piece: TypeAlias = tuple[int, int, int]


class _Other:
    """A job of somebody else."""

    owner = "other"

    def work(self, token: Token, scratch: Scratch) -> None:
        del token, scratch


@pytest.fixture(scope="module")
def readers(
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[dict[int, tuple[bytes, SealedReader]]]:
    key = PayloadKey(b"k" * 32, b"associated")
    folder = tmp_path_factory.mktemp("sealed")
    found = {}
    with ExitStack() as stack:
        for size in SIZES:
            plain, path = varied(size), folder / str(size)
            sealed = seal(path, key, plain)
            found[size] = plain, stack.enter_context(opened(path, key, sealed))
        yield found


@pytest.fixture(scope="module")
def engine() -> Iterator[Engine]:
    engine = Engine(3)
    engine.start()
    yield engine
    engine.close()


@settings(max_examples=150, deadline=None)
@given(
    size=st.sampled_from(SIZES),
    segments=st.sampled_from((1, 2, 4, SLOTS)),
    chance=st.randoms(use_true_random=True),
)
def test_slots_come_back_in_any_order_and_each_piece_comes_once(
    readers: dict[int, tuple[bytes, SealedReader]],
    engine: Engine,
    size: int,
    segments: int,
    chance: random.Random,
) -> None:
    plain, reader = readers[size]
    came: queue.SimpleQueue[_Piece | SealcarError | None] = queue.SimpleQueue()
    held: dict[int, tuple[int, int]] = {}
    got: dict[int, int] = {}
    over = threading.Event()

    def ended(error: SealcarError | None) -> None:
        came.put(error)
        over.set()

    with Ring.of_size(segments, client_writes=False) as ring:
        source = SealedSource(reader)
        flow = RingRead(source, ring, engine, lambda *piece: came.put(piece), ended)
        used = 1 if source.in_one else min(ring.slots, source.count)

        def unchanged() -> bool:
            return all(
                ctypes.string_at(ring.address(slot), size) == plain[at : at + size]
                for slot, (at, size) in held.items()
            )

        engine.put(flow, *map(Token, range(used)))
        try:
            while isinstance(told := came.get(timeout=PATIENCE), tuple):
                slot, offset, size = told
                assert slot not in held, "it is the client's"
                assert offset not in got
                assert size <= ring.slot_size
                held[slot], got[offset] = (offset, size), size
                if len(held) < used and chance.random() < CHANCE:
                    continue
                assert unchanged()
                back = chance.sample(sorted(held), chance.randint(1, len(held)))
                for one in back:
                    del held[one]
                if chance.random() < CHANCE:
                    engine.put(_Other(), Token(0))
                engine.put(flow, *map(Token, back))
            assert told is None
            assert came.empty(), "the end comes last, and once"
            assert unchanged(), "what the client holds stays as it is"
        finally:
            # if it has failed: until then workers use the ring
            flow.stop(WrongStateError("the test ends"))
            over.wait(PATIENCE)
    at = 0
    for offset in sorted(got):
        assert offset == at
        at += got[offset]
    assert at == len(plain)
