"""Payloads out of a bucket, through a daemon's own door: what a bad way to it does to reads."""

from __future__ import annotations

import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Final

import pytest
from support.buckets import Trouble, no_trouble
from support.daemon import Daemon, answer, environment
from support.far_objects import until
from support.payload_packages import COMPONENT, VARIANT, publish, varied

from sealcar.errors import DamagedError, NotAuthenticError, SealcarError, StorageError
from sealcar.transfer.scopes import ScopeName

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from support.buckets import BucketServer

MIB: Final = 1 << 20
BIG: Final = varied(7 * MIB + 77)
SMALL: Final = varied(5000)
PATIENCE: Final = 2.0
READING: Final = """
import sys
import sealcar
reader = sealcar.connect(sys.argv[1]).scope("given-up", "c", "v").reader("big")
reader.read_into(bytearray(reader.size), reader.size)
"""
SETTINGS: Final = {"store.patience": f"{PATIENCE}s", "store.cache_size": "64MiB"} | {
    "daemon.drain_timeout": "1s"
}


class Far:
    """A daemon and its way to its bucket."""

    def __init__(self, folder: Path, server: BucketServer, **more: str) -> None:
        self.server, self.bucket = server, server.make()
        self.trouble = Trouble(server.port)
        options = server.options(self.bucket, self.trouble.port)
        self.daemon = Daemon(folder, settings={**SETTINGS, **more}, init=options)

    def put(self, name: str, **payloads: bytes) -> str:
        """Import a package, and return the key of its largest payload's object."""
        before = set(self.payloads())
        with self.daemon.connect() as client:
            publish(client, payloads, name)
        new = set(self.payloads()) - before
        size = self.server.operator.head_object
        return max(new, key=lambda key: size(Bucket=self.bucket, Key=key)["ContentLength"])

    def payloads(self) -> list[str]:
        return [key for key in self.server.keys(self.bucket) if "/p/" in key]

    def read(self, name: str, payload: str = "big") -> bytes:
        with self.daemon.connect() as client:
            return client.scope(name, COMPONENT, VARIANT).read(payload)

    def fetched(self) -> int:
        """Return how many ranges of payloads were asked for."""
        return sum(method == "GET" and "/p/" in path for method, path in self.trouble.seen)

    def forget(self) -> None:
        """Have nothing in the cache any more: as somebody who restarts on another disk."""
        self.daemon.stop()
        for path in (self.daemon.store / "cache").iterdir():
            path.unlink()
        self.daemon.start()


@pytest.fixture(scope="module")
def far(s3_server: BucketServer, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Far]:
    made = Far(tmp_path_factory.mktemp("far"), s3_server)
    try:
        made.daemon.start()
        yield made
    finally:
        made.daemon.kill()
        made.trouble.close()


@pytest.fixture(autouse=True)
def untroubled(far: Far) -> Iterator[None]:
    yield
    far.trouble.wanted = no_trouble


def payloads_only(what: str) -> Callable[[str, str], str]:
    return lambda method, path: what if method == "GET" and "/p/" in path else ""


def test_a_payload_is_fetched_once_and_then_read_from_here_after_a_restart_too(far: Far) -> None:
    far.put("twice", big=BIG, small=SMALL)
    assert far.read("twice") == BIG
    assert far.read("twice", "small") == SMALL
    fetched = far.fetched()
    assert fetched <= 8, "several pieces by one request"
    assert far.read("twice") == BIG
    far.daemon.stop()
    far.daemon.start()
    assert far.read("twice") == BIG
    assert far.read("twice", "small") == SMALL
    assert far.fetched() == fetched
    assert 7 * MIB < far.daemon.metric("sealcar_cache_bytes") <= 64 * MIB


def test_what_was_got_ready_exported_and_verified_is_fetched_once(far: Far, tmp_path: Path) -> None:
    far.put("ready", big=BIG)
    with far.daemon.connect() as client:
        client.catalogue.prefetch(ScopeName("ready", COMPONENT, VARIANT))
        fetched = far.fetched()
        assert client.scope("ready", COMPONENT, VARIANT).read("big") == BIG
        assert client.catalogue.verify("ready").size >= len(BIG)
    out = str(tmp_path / "out")
    answer("export", "ready", out, "--socket", str(far.daemon.socket))
    assert far.fetched() == fetched


@pytest.mark.parametrize("what", ["cut", "short", "shifted", "slow:0.3"])
def test_what_goes_wrong_on_the_way_is_asked_for_again(far: Far, what: str) -> None:
    name = f"again-{what.replace(':', '-').replace('.', '-')}"
    far.put(name, big=BIG)
    left = iter([what, what])
    far.trouble.wanted = lambda method, path: (
        next(left, "") if method == "GET" and "/p/" in path else ""
    )
    assert far.read(name) == BIG


def test_a_bucket_that_stays_bad_is_an_error_in_time_and_hurts_nobody_else(far: Far) -> None:
    far.put("bad", big=BIG)
    far.put("good", big=BIG)
    assert far.read("good") == BIG
    far.trouble.wanted = payloads_only("503")
    begun = time.monotonic()
    with ThreadPoolExecutor(2) as pool:
        failing = pool.submit(far.read, "bad")
        assert far.read("good") == BIG
        assert not failing.done(), "it doesn't wait for the other"
        with pytest.raises(StorageError, match="answers 503") as caught:
            failing.result(20)
    assert time.monotonic() - begun < 10 * PATIENCE
    assert caught.value.place.payload == "big"
    far.trouble.wanted = no_trouble
    assert far.read("bad") == BIG


def test_a_read_that_the_bucket_fails_on_the_way_ends_with_an_error(far: Far) -> None:
    far.put("midway", big=BIG)
    count = iter(range(1000))
    far.trouble.wanted = lambda method, path: (
        "503" if method == "GET" and "/p/" in path and next(count) >= 3 else ""
    )
    with pytest.raises(StorageError, match="answers 503"):
        far.read("midway")
    far.trouble.wanted = no_trouble
    assert far.read("midway") == BIG


def test_an_object_that_somebody_replaces_is_refused(far: Far) -> None:
    key = far.put("replaced", big=BIG)
    sealed = far.server.content(far.bucket, key)
    assert far.read("replaced", "model.onnx")
    far.server.operator.put_object(Bucket=far.bucket, Key=key, Body=sealed[:-5] + b"other")
    with pytest.raises(DamagedError):
        far.read("replaced")
    far.server.operator.put_object(Bucket=far.bucket, Key=key, Body=sealed)
    assert far.read("replaced") == BIG


def test_a_damaged_copy_is_fetched_once_more_and_then_right(far: Far) -> None:
    far.put("damaged", big=BIG)
    assert far.read("damaged") == BIG
    known = far.daemon.metric("sealcar_cache_damaged_total")
    newest = max((far.daemon.store / "cache").iterdir(), key=lambda path: path.stat().st_mtime)
    for piece in (0, 3, 7):
        with newest.open("r+b") as file:
            file.seek(4096 + piece * MIB + 41)
            file.write(b"damage")
    fetched = far.fetched()
    assert far.read("damaged") == BIG
    assert far.fetched() == fetched + 3
    assert far.daemon.metric("sealcar_cache_damaged_total") == known + 3


def test_what_is_damaged_in_the_bucket_too_isnt_served(far: Far) -> None:
    key = far.put("forged", big=BIG)
    sealed = bytearray(far.server.content(far.bucket, key))
    sealed[5 * MIB] ^= 1
    far.server.operator.put_object(Bucket=far.bucket, Key=key, Body=bytes(sealed))
    with pytest.raises(NotAuthenticError):
        far.read("forged")


def test_readers_at_once_share_what_is_fetched(far: Far) -> None:
    far.put("shared", big=BIG)
    far.trouble.wanted = payloads_only("slow:0.1")
    before = far.fetched()
    with ThreadPoolExecutor(6) as pool:
        assert list(pool.map(far.read, ["shared"] * 6)) == [BIG] * 6
    assert far.fetched() - before <= 8


def test_a_cache_that_is_too_small_fails_no_read(s3_server: BucketServer, tmp_path: Path) -> None:
    thin = Far(tmp_path, s3_server, **{"store.cache_size": "3MiB"})
    try:
        thin.daemon.start()
        thin.put("one", big=BIG, small=SMALL)
        thin.put("two", big=BIG[::-1])
        with ThreadPoolExecutor(6) as pool:
            found = list(pool.map(thin.read, ["one", "two"] * 3))
        assert found == [BIG, BIG[::-1]] * 3
        assert thin.read("one", "small") == SMALL
        files = (thin.daemon.store / "cache").iterdir()
        assert sum(path.stat().st_blocks * 512 for path in files) <= 3 * MIB
        assert thin.daemon.metric("sealcar_cache_served_bytes_total", source="memory") > len(BIG)
    finally:
        thin.daemon.kill()
        thin.trouble.close()


def test_who_gives_up_is_fetched_for_no_longer(far: Far) -> None:
    far.put("given-up", big=varied(60 * MIB))
    far.trouble.wanted = payloads_only("slow:0.2")
    before = far.fetched()
    command = [sys.executable, "-c", READING, str(far.daemon.socket)]
    with subprocess.Popen(command, env=environment()) as reading:
        until(lambda: far.fetched() > before + 2)
        reading.kill()
    # what is under way comes, and what is ahead of nobody doesn't
    time.sleep(0.6)
    settled = far.fetched()
    assert settled - before <= 12
    time.sleep(0.5)
    assert far.fetched() == settled


def test_a_daemon_stops_while_its_bucket_doesnt_answer(far: Far) -> None:
    far.put("stopping", big=BIG)
    far.trouble.wanted = payloads_only("slow:30")
    with ThreadPoolExecutor(1) as pool:
        reading = pool.submit(far.read, "stopping")
        time.sleep(0.3)
        begun = time.monotonic()
        assert far.daemon.stop() == 0
        assert time.monotonic() - begun < 10
        with pytest.raises(SealcarError):
            reading.result(20)
    far.trouble.wanted = no_trouble
    far.daemon.start()
    assert far.read("stopping") == BIG
