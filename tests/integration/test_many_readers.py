"""Many who read at once, under one budget: all of them begin, and all of them come to their end."""

from __future__ import annotations

import ctypes
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from typing import TYPE_CHECKING

import pytest
from support.daemon import Daemon
from support.many_packages import fill
from support.payload_packages import COMPONENT, PACKAGE, VARIANT, publish, varied
from support.raw_clients import RawClient, until

from sealcar_server.transfer.rings import SIZE

if TYPE_CHECKING:
    from collections.abc import Iterator

MIB = 1 << 20
BIG = varied(12 * MIB)
READERS = 64
OTHERS = 300


@pytest.fixture(scope="module")
def daemon(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Daemon]:
    made = Daemon(tmp_path_factory.mktemp("d"))
    with made, made.connect() as client:
        publish(client, {"big": BIG, "small": b"small"})
        fill(made.store, PACKAGE, OTHERS)
        yield made


def test_64_who_never_read_on_have_begun_all_of_them_and_the_budget_holds(daemon: Daemon) -> None:
    with ExitStack() as stack:
        sizes = []
        for _ in range(READERS):
            client = stack.enter_context(RawClient(daemon))
            client.read("big")
            packet = client.packet()
            sizes.append(packet.ring.slots * packet.ring.slot_size)
            client.mapped()
            assert client.packet().reading.size == len(BIG)
        assert max(sizes) == SIZE
        assert min(sizes) >= MIB
        with daemon.connect() as watcher:
            state = watcher.state()
            assert state.transfers == READERS
            assert state.memory == sum(sizes) <= state.memory_limit
    with daemon.connect() as watcher:
        until(lambda: watcher.state().memory == 0)


def test_a_ring_that_was_small_for_want_of_room_is_replaced_when_there_is_some(
    daemon: Daemon,
) -> None:
    with ExitStack() as stack:
        clients = [stack.enter_context(RawClient(daemon)) for _ in range(40)]
        for client in clients:
            client.start_read("big")
        last = clients.pop()
        assert _size(last) < SIZE
        for client in clients:
            client.close()
        whole = _finish(last)
        assert whole == BIG
        with daemon.connect() as watcher:
            until(lambda: watcher.state().memory == _size(last))
        last.start_read("big")
        assert _size(last) == SIZE
        assert _finish(last) == BIG


def _size(client: RawClient) -> int:
    ring = client.rings[-1]
    return ring.slots * ring.slot_size


def _finish(client: RawClient) -> bytes:
    """Read on to the end."""
    data = bytearray(len(BIG))
    while (packet := client.packet()).WhichOneof("packet") == "piece":
        piece = packet.piece
        source = client.rings[-1].address(piece.slot, piece.size)
        data[piece.offset : piece.offset + piece.size] = ctypes.string_at(source, piece.size)
        client.free(piece.slot)
    assert packet.done.size == len(BIG)
    return bytes(data)


def test_readers_of_all_kinds_and_a_listing_all_come_to_their_end(daemon: Daemon) -> None:
    wrong: list[str] = []

    def check(*, good: bool, what: str) -> None:
        if not good:
            wrong.append(what)

    def read(delivery: str) -> None:
        with daemon.connect(delivery=delivery) as client:
            scope = client.scope(PACKAGE, COMPONENT, VARIANT)
            check(good=scope.read("big") == BIG, what=delivery)
            check(good=scope.read("small") == b"small", what=delivery)

    def several() -> None:
        with daemon.connect() as client, ThreadPoolExecutor(6) as callbacks:
            scope = client.scope(PACKAGE, COMPONENT, VARIANT)
            check(good=set(callbacks.map(scope.read, ["big"] * 6)) == {BIG}, what="callbacks")

    def listing() -> None:
        with daemon.connect() as client:
            names = {one.name for one in client.catalogue.list()}
            check(good=len(names) == OTHERS + 1, what="names")

    with ThreadPoolExecutor(8) as pool:
        done = [pool.submit(read, way) for way in ("ring", "stream", "ring", "ring")]
        done += [pool.submit(several), pool.submit(listing)]
    for each in done:
        each.result()
    assert not wrong
