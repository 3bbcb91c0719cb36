"""Two daemons on one store at once, as in a rolling upgrade, and peers of other releases."""

from __future__ import annotations

import os
import threading
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING

import pytest
from support.daemon import Daemon
from support.onnx_bytes import model_around
from support.other_release import BetweenReleases
from support.payload_packages import COMPONENT, PACKAGE, VARIANT, publish, varied

import sealcar
from sealcar.admin import Admin
from sealcar.errors import ConflictError, NotFoundError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from sealcar.client import Client

BIG = varied(9 << 20)
RIGHTS = ("list", "read", "write", "import", "verify", "manage")


@pytest.fixture(scope="module")
def old(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Daemon]:
    daemon = Daemon(tmp_path_factory.mktemp("old"))
    daemon.grant(os.geteuid(), rights=RIGHTS)
    with daemon:
        yield daemon


@pytest.fixture(scope="module")
def new(old: Daemon, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Daemon]:
    """Another one, whose sockets and state are its own."""
    settings = {"store.path": str(old.store), "keys.default.uri": f"file:{old.folder}/kek"}
    daemon = Daemon(tmp_path_factory.mktemp("new"), settings=settings)
    daemon.grant(os.geteuid(), rights=RIGHTS)
    with daemon:
        yield daemon


@pytest.fixture(scope="module")
def theirs(old: Daemon) -> Iterator[Client]:
    with old.connect() as client:
        publish(client, {"big": BIG, "small": b"small"})
        yield client


@pytest.fixture(scope="module")
def ours(new: Daemon, theirs: Client) -> Iterator[Client]:  # noqa: ARG001  (publishes first)
    with new.connect() as client:
        yield client


def add(client: Client, variant: str, data: bytes) -> int:
    with client.begin(PACKAGE, COMPONENT, variant) as transaction:
        transaction.write("m.onnx", model_around(data), "model")
        return transaction.commit().generation


def model_in(client: Client, variant: str) -> bytes:
    return client.scope(PACKAGE, COMPONENT, variant).read("m.onnx")


def test_each_serves_at_once_what_the_other_published(theirs: Client, ours: Client) -> None:
    assert ours.scope(PACKAGE, COMPONENT, VARIANT).read("big") == BIG
    assert add(ours, "by-new", b"new") == 2
    assert theirs.scope(PACKAGE, COMPONENT, "by-new").read("m.onnx") == model_around(b"new")
    assert add(theirs, "by-old", b"old") == 3
    assert ours.scope(PACKAGE, COMPONENT, "by-old").read("m.onnx") == model_around(b"old")
    for client in (theirs, ours):
        assert client.catalogue.verify(PACKAGE).generation == 3


def test_two_that_publish_at_once_lose_nothing(theirs: Client, ours: Client) -> None:
    def writes(client: Client, letter: str) -> list[str]:
        done = []
        for number in range(6):
            name = f"{letter}{number}"
            while name not in done:
                try:
                    add(client, name, name.encode())
                except ConflictError:
                    continue
                done.append(name)
        return done

    with ThreadPoolExecutor(2) as both:
        works = [both.submit(writes, theirs, "o"), both.submit(writes, ours, "n")]
        names = [name for work in works for name in work.result()]
    for client in (theirs, ours):
        there = {one.variant for one in client.catalogue.get(PACKAGE).variants}
        assert set(names) <= there
        for name in names:
            assert model_in(client, name) == model_around(name.encode())


def test_a_reader_is_served_on_when_the_other_one_removes_what_it_reads(
    theirs: Client, ours: Client
) -> None:
    scope = theirs.scope(PACKAGE, COMPONENT, VARIANT)
    with scope.reader("big") as reader:
        data = bytearray(reader.size)
        assert add(ours, VARIANT, b"replaced") > scope.generation
        assert scope.generation in ours.catalogue.remove(PACKAGE, "1", scope.generation)
        reader.read_into(data)
    assert data == BIG
    # what is gone is told as that, by a daemon that had it open too
    for client in (theirs, ours):
        with pytest.raises(NotFoundError):
            client.scope(
                PACKAGE, COMPONENT, VARIANT, version="1", generation=scope.generation
            ).read("big")
    assert model_in(theirs, VARIANT) == model_around(b"replaced")


def test_a_key_that_one_rotates_opens_at_the_other(
    old: Daemon, new: Daemon, theirs: Client, ours: Client
) -> None:
    with Admin.at(new.admin) as admin:
        admin.rotate()
        publish(ours, {"blob": b"under the new version"}, "rotated")
    assert theirs.scope("rotated", COMPONENT, VARIANT).read("blob") == b"under the new version"
    with Admin.at(old.admin) as admin:
        (key,) = admin.status().keys
        assert key.version == "2"


def test_clients_go_from_one_to_the_other_without_a_gap(old: Daemon, new: Daemon) -> None:
    """The last of a rolling upgrade: the old one stops while readers go on at the new one."""
    over = threading.Event()

    def reads() -> int:
        count = 0
        with new.connect() as client:
            while not over.is_set():
                assert model_in(client, VARIANT) == model_around(b"replaced")
                count += 1
        return count

    with ThreadPoolExecutor(1) as pool:
        reading = pool.submit(reads)
        try:
            assert old.stop() == 0
        finally:
            over.set()
        assert reading.result() > 0


def test_what_another_release_says_beyond_the_protocol_is_passed_over(new: Daemon) -> None:
    """Both ways: each message of both sides has fields that the other one doesn't know."""
    with BetweenReleases(new) as between, sealcar.connect(between.socket) as client:
        publish(client, {"blob": BIG}, "between")
        scope = client.scope("between", COMPONENT, VARIANT)
        assert scope.read("blob") == BIG
        with scope.map("blob", shared=True) as mapped:
            assert mapped.view == BIG
        with client.begin("between", COMPONENT, "w") as transaction:
            transaction.write("m.onnx", model_around(BIG), "model")
            transaction.commit()
        assert client.scope("between", COMPONENT, "w").read("m.onnx") == model_around(BIG)
        with pytest.raises(NotFoundError):
            client.scope("between", COMPONENT, "absent").open()
        assert between.passed > 20
