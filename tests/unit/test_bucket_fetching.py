"""Reading objects through the cache: every byte right, within the bound, nothing asked twice."""

from __future__ import annotations

import os
import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import TYPE_CHECKING

import pytest
from support.far_objects import MIB, FarObjects, until

from sealcar.errors import (
    NotAuthenticError,
    NotFoundError,
    StorageError,
    TruncatedError,
    UnavailableError,
    WrongStateError,
)
from sealcar_server.store.bucket.cache import Cache
from sealcar_server.store.bucket.fetching import PARALLEL, Fetcher
from sealcar_server.store.directory import Directory

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from sealcar_server.store.bucket.bucket_file import BucketFile

LIMIT = 64 * MIB


@pytest.fixture
def far() -> FarObjects:
    return FarObjects()


@contextmanager
def fetching(
    folder: Path,
    far: FarObjects,
    limit: int = LIMIT,
    patience: float = 30.0,
    parallel: int = PARALLEL,
) -> Iterator[Fetcher]:
    folder.mkdir(mode=0o700, exist_ok=True)
    cache = Cache(Directory.open(folder), limit)
    with Fetcher(far, cache, patience=patience, parallel=parallel) as made:
        yield made


@contextmanager
def opened(fetcher: Fetcher, far: FarObjects, key: str) -> Iterator[BucketFile]:
    file = fetcher.open(key, *far.size(key))
    try:
        yield file
    finally:
        file.close()


def read(file: BucketFile, at: int = 0, size: int | None = None) -> bytes:
    data = bytearray(file.size() - at if size is None else size)
    for done in range(0, len(data), MIB):
        file.read(memoryview(data)[done : done + MIB], at + done)
    return bytes(data)


def disk(folder: Path) -> int:
    return sum(path.stat().st_blocks * 512 for path in folder.iterdir())


@pytest.mark.parametrize("size", [1, 4096, MIB - 1, MIB, MIB + 1, 20 * MIB + 17])
def test_an_object_is_read_whole_and_the_second_time_without_a_request(
    tmp_path: Path, far: FarObjects, size: int
) -> None:
    far.put("o", size)
    with fetching(tmp_path / "c", far) as fetcher:
        with opened(fetcher, far, "o") as file:
            assert read(file) == far.content("o")
        asked = len(far.asked)
        assert sum(part for _, _, part in far.asked) == size, "each byte is asked for once"
        with opened(fetcher, far, "o") as file:
            assert read(file) == far.content("o")
        assert len(far.asked) == asked
    assert {path.stat().st_mode & 0o777 for path in (tmp_path / "c").iterdir()} == {0o600}


def test_what_is_there_is_found_again_after_a_restart(tmp_path: Path, far: FarObjects) -> None:
    far.put("o", 20 * MIB)
    with fetching(tmp_path / "c", far) as fetcher, opened(fetcher, far, "o") as file:
        for index in (15, 5, 10):
            read(file, index * MIB, MIB)
    asked = far.asked.copy()
    with fetching(tmp_path / "c", far) as fetcher, opened(fetcher, far, "o") as file:
        assert read(file) == far.content("o")
    assert sum(size for _, _, size in far.asked) == 20 * MIB
    assert len(far.asked) > len(asked)


def test_whoever_reads_in_order_is_fetched_ahead_of_by_several_requests(
    tmp_path: Path, far: FarObjects
) -> None:
    far.put("o", 200 * MIB)
    with (
        fetching(tmp_path / "c", far, limit=400 * MIB) as fetcher,
        opened(fetcher, far, "o") as file,
    ):
        assert read(file, 0, 4 * MIB) == far.content("o")[: 4 * MIB]
        until(lambda: sum(size for _, _, size in far.asked) >= 120 * MIB)
        until(lambda: far.together == 0)
        ahead = sum(size for _, _, size in far.asked)
        assert ahead < 150 * MIB, "and not too far"
        assert max(size for _, _, size in far.asked) <= 4 * MIB
        assert far.asked[0][2] == MIB, "the first one is there soon"


def test_whoever_reads_here_and_there_gets_no_more_than_that(
    tmp_path: Path, far: FarObjects
) -> None:
    far.put("o", 60 * MIB)
    with fetching(tmp_path / "c", far) as fetcher, opened(fetcher, far, "o") as file:
        for index in (40, 20, 50, 10):
            part = read(file, index * MIB + 7, 100)
            assert part == far.content("o")[index * MIB + 7 :][:100]
        until(lambda: far.together == 0)
    assert sum(size for _, _, size in far.asked) == 4 * MIB, "opening fetches nothing"


def test_a_range_over_the_border_of_pieces_is_read_whole(tmp_path: Path, far: FarObjects) -> None:
    far.put("o", 5 * MIB)
    with fetching(tmp_path / "c", far) as fetcher, opened(fetcher, far, "o") as file:
        data = bytearray(2 * MIB)
        file.read(memoryview(data), MIB + 100)
        assert data == far.content("o")[MIB + 100 : 3 * MIB + 100]
        with pytest.raises(TruncatedError):
            file.read(memoryview(data), 4 * MIB)


def test_what_nobody_reads_makes_room_the_longest_unused_first(
    tmp_path: Path, far: FarObjects
) -> None:
    for key in ("a", "b", "c"):
        far.put(key, 20 * MIB)
    with fetching(tmp_path / "c", far, limit=50 * MIB) as fetcher:
        for key in ("a", "b", "a", "c"):
            with opened(fetcher, far, key) as file:
                assert read(file) == far.content(key)
            assert disk(tmp_path / "c") <= 50 * MIB
        far.asked.clear()
        for key in ("c", "a"):
            with opened(fetcher, far, key) as file:
                assert read(file) == far.content(key)
        assert not far.asked, "both are there"
        with opened(fetcher, far, "b") as file:
            assert read(file) == far.content("b")
        assert 0 < sum(size for _, _, size in far.asked) < 20 * MIB, "b made room in part only"


@pytest.mark.parametrize("limit", [0, 4096, 3 * MIB, 21 * MIB])
def test_what_the_cache_has_no_room_for_passes_through_memory(
    tmp_path: Path, far: FarObjects, limit: int
) -> None:
    for key in ("a", "b"):
        far.put(key, 40 * MIB + 5)
    with (
        fetching(tmp_path / "c", far, limit=limit) as fetcher,
        opened(fetcher, far, "a") as first,
        opened(fetcher, far, "b") as second,
    ):
        for index in range(40):
            for file in (first, second):
                got = read(file, index * MIB, MIB)
                assert got == far.content(file.key)[index * MIB : (index + 1) * MIB]
        assert disk(tmp_path / "c") <= limit
        until(lambda: fetcher._arrivals._memory <= 2 * MIB)
    total = sum(size for _, _, size in far.asked)
    assert total <= 80 * MIB + 10 + 4 * MIB, "hardly a byte twice"
    assert fetcher._arrivals._memory == 0


def test_who_begins_to_read_and_stops_keeps_nobody_from_reading_without_a_cache(
    tmp_path: Path, far: FarObjects
) -> None:
    far.put("o", 8 * MIB)
    with fetching(tmp_path / "c", far, limit=0) as fetcher:
        begun = [fetcher.open(key, *far.put(key, 3 * MIB)) for key in map(str, range(80))]
        try:
            for file in begun:
                read(file, 0, 40)
            with opened(fetcher, far, "o") as file:
                assert read(file) == far.content("o")
            assert fetcher._arrivals._memory <= 64 * MIB
            assert read(begun[0]) == far.content("0")
            assert read(begun[-1]) == far.content("79")
        finally:
            for file in begun:
                file.close()
        assert fetcher._arrivals._memory == 0


def test_a_full_disk_fails_no_read(
    tmp_path: Path, far: FarObjects, monkeypatch: pytest.MonkeyPatch
) -> None:
    far.put("o", 20 * MIB)

    def full(_fd: int, _data: object, _at: int) -> int:
        raise OSError(28, "No space left on device")

    with fetching(tmp_path / "c", far) as fetcher, opened(fetcher, far, "o") as file:
        monkeypatch.setattr(os, "pwrite", full)
        assert read(file) == far.content("o")
        monkeypatch.undo()
        assert read(file) == far.content("o")


def test_a_full_disk_fails_no_read_though_what_is_there_cant_be_cut_either(
    tmp_path: Path, far: FarObjects, monkeypatch: pytest.MonkeyPatch
) -> None:
    for key in ("old", "new"):
        far.put(key, 40 * MIB)

    def full(_fd: int, _data: object, _at: int) -> int:
        raise OSError(28, "No space left on device")

    with fetching(tmp_path / "c", far, limit=100 * MIB) as fetcher:
        with opened(fetcher, far, "old") as file:
            read(file)
            until(lambda: far.together == 0)
        with opened(fetcher, far, "new") as file:
            monkeypatch.setattr(os, "pwrite", full)
            assert read(file) == far.content("new")
            assert all(thread.is_alive() for thread in fetcher._threads)


def test_readers_of_one_object_share_its_requests(tmp_path: Path, far: FarObjects) -> None:
    far.put("o", 30 * MIB)
    got: list[bytes] = []
    with fetching(tmp_path / "c", far) as fetcher:
        far.held.clear()

        def one() -> None:
            with opened(fetcher, far, "o") as file:
                got.append(read(file))

        threads = [threading.Thread(target=one) for _ in range(6)]
        for thread in threads:
            thread.start()
        far.held.set()
        for thread in threads:
            thread.join(20)
    assert got == [far.content("o")] * 6
    assert sum(size for _, _, size in far.asked) == 30 * MIB


def test_who_waits_is_called_once_and_never_after_closing(tmp_path: Path, far: FarObjects) -> None:
    far.put("o", 10 * MIB)
    calls: list[str] = []
    with fetching(tmp_path / "c", far) as fetcher:
        far.held.clear()
        with opened(fetcher, far, "o") as first, opened(fetcher, far, "o") as second:
            assert not first.ready(4 * MIB, MIB, lambda: calls.append("first"))
            assert not second.ready(4 * MIB, MIB, lambda: calls.append("second"))
            second.close()
            far.held.set()
            until(lambda: first.ready(4 * MIB, MIB, lambda: None))
            until(lambda: far.together == 0)
            assert calls == ["first"]
            with pytest.raises(WrongStateError):
                read(second, 0, 1)


def test_who_reads_is_told_when_somebody_else_closes_the_file(
    tmp_path: Path, far: FarObjects
) -> None:
    far.put("o", 3 * MIB)
    with fetching(tmp_path / "c", far) as fetcher, ThreadPoolExecutor(1) as pool:
        far.held.clear()
        file = fetcher.open("o", *far.size("o"))
        reading = pool.submit(read, file, MIB, 1)
        until(lambda: far.together == 1)
        file.close()
        with pytest.raises(WrongStateError, match="closed"):
            reading.result(10)
        far.held.set()


def test_owners_take_turns_however_much_one_of_them_wants(tmp_path: Path, far: FarObjects) -> None:
    for number in range(40):
        far.put(f"many-{number}", 3 * MIB)
    far.put("one", 3 * MIB)
    with fetching(tmp_path / "c", far, limit=400 * MIB) as fetcher:
        far.held.clear()
        files = [fetcher.open(f"many-{n}", *far.size(f"many-{n}")) for n in range(40)]
        for file in files:
            file.ready(MIB, MIB, lambda: None, "greedy")
        other = fetcher.open("one", *far.size("one"))
        other.ready(MIB, MIB, lambda: None, "modest")
        before = len(far.asked)
        far.held.set()
        until(lambda: ("one", MIB, MIB) in far.asked or ("one", MIB, 2 * MIB) in far.asked)
        position = next(n for n, (key, at, _) in enumerate(far.asked) if (key, at) == ("one", MIB))
        # those that opening asked for have turns of their own
        assert sum(key != "one" and at == MIB for key, at, _ in far.asked[before:position]) <= 3
        for file in [*files, other]:
            file.close()


def test_a_failure_is_told_to_who_waits_and_the_next_one_tries_again(
    tmp_path: Path, far: FarObjects
) -> None:
    far.put("o", 3 * MIB)
    far.put("there", 3 * MIB)
    with fetching(tmp_path / "c", far) as fetcher, opened(fetcher, far, "there") as there:
        read(there)
        far.fail(StorageError("s3://models can't be reached"))
        with opened(fetcher, far, "o") as file:
            with pytest.raises(StorageError, match="can't be reached"):
                read(file)
            assert read(there) == far.content("there"), "who has it here doesn't notice"
            far.fail(None)
            assert read(file) == far.content("o")


def test_who_waits_behind_others_for_a_bucket_that_is_gone_waits_no_longer_than_they(
    tmp_path: Path, far: FarObjects
) -> None:
    with fetching(tmp_path / "c", far, limit=400 * MIB, patience=0.2) as fetcher:
        slow = threading.Event()

        def trouble(_key: str, _at: int) -> None:
            slow.wait(0.4)
            raise StorageError("s3://models can't be reached")

        far.trouble = trouble
        files = [fetcher.open(f"o{n}", *far.put(f"o{n}", 3 * MIB)) for n in range(60)]
        for file in files:
            file.ready(0, MIB, lambda: None, file)
        with pytest.raises(StorageError):
            read(files[-1])
        assert len(far.asked) < 60, "not each of them tried"
        slow.set()
        for file in files:
            file.close()


def test_what_is_on_its_way_isnt_given_up_because_it_was_asked_for_long_ago(
    tmp_path: Path, far: FarObjects
) -> None:
    gates = {key: threading.Event() for key in ("one", "two", "o")}
    gates["o"].set()
    for key in gates:
        far.put(key, 5 * MIB)

    def trouble(key: str, _at: int) -> None:
        gates[key].wait(20)
        if key == "two":
            raise StorageError("s3://models can't be reached")

    far.trouble = trouble
    with (
        fetching(tmp_path / "c", far, patience=0.1, parallel=2) as fetcher,
        opened(fetcher, far, "o") as file,
        opened(fetcher, far, "one") as one,
        opened(fetcher, far, "two") as two,
    ):
        read(file, 0, 1)
        until(lambda: far.together == 0)
        gates["o"].clear()
        for other in (one, two):
            other.ready(0, MIB, lambda: None, other)
        until(lambda: far.together == 2)
        calls: list[int] = []
        file.ready(2 * MIB, MIB, lambda: calls.append(2), "first")
        file.ready(3 * MIB, MIB, lambda: calls.append(3), "second")
        threading.Event().wait(0.2)
        gates["one"].set()
        until(lambda: ("o", 2 * MIB, 2 * MIB) in far.asked)
        gates["two"].set()
        until(lambda: 0 in two.errors)
        until(lambda: far.together == 1)
        assert not calls
        gates["o"].set()
        until(lambda: sorted(calls) == [2, 3])
        assert not file.errors


def test_an_object_that_was_replaced_is_refused_and_then_read_anew(
    tmp_path: Path, far: FarObjects
) -> None:
    size, etag = far.put("o", 3 * MIB)
    with fetching(tmp_path / "c", far) as fetcher:
        far.put("o", 4 * MIB, "another")
        file = fetcher.open("o", size, etag)
        with pytest.raises(NotAuthenticError, match="replaced"):
            read(file, 0, 40)
        assert file.doubt(0, 40), "its header isn't authentic: another one may be"
        assert file.size() == 4 * MIB
        assert read(file) == far.content("o")
        assert not file.doubt(0, 40), "but only once"
        file.close()


def test_an_object_that_is_gone_is_not_found(tmp_path: Path, far: FarObjects) -> None:
    size, etag = far.put("o", 3 * MIB)
    far.fail(NotFoundError("gone"))
    with fetching(tmp_path / "c", far) as fetcher:
        file = fetcher.open("o", size, etag)
        with pytest.raises(NotFoundError):
            read(file)
        file.close()


def test_what_isnt_authentic_is_fetched_once_more(tmp_path: Path, far: FarObjects) -> None:
    far.put("o", 6 * MIB)
    with fetching(tmp_path / "c", far) as fetcher:
        with opened(fetcher, far, "o") as file:
            read(file)
            until(lambda: far.together == 0)
        (path,) = (tmp_path / "c").iterdir()
        with path.open("r+b") as damaged:
            damaged.seek(4096 + 2 * MIB + 5)
            damaged.write(b"damage")
        far.asked.clear()
        with opened(fetcher, far, "o") as file:
            assert read(file, 2 * MIB, MIB) != far.content("o")[2 * MIB : 3 * MIB]
            assert file.doubt(2 * MIB, MIB)
            assert read(file, 2 * MIB, MIB) == far.content("o")[2 * MIB : 3 * MIB]
            assert not file.doubt(2 * MIB, MIB)
        assert far.asked == [("o", 2 * MIB, MIB)]
    assert disk(tmp_path / "c") < 6 * MIB + 16384


def test_a_stop_ends_whoever_waits(tmp_path: Path, far: FarObjects) -> None:
    far.put("o", 3 * MIB)
    errors: list[Exception] = []
    with fetching(tmp_path / "c", far) as fetcher:
        far.held.clear()
        file = fetcher.open("o", *far.size("o"))

        def wait() -> None:
            try:
                read(file)
            except UnavailableError as error:
                errors.append(error)

        thread = threading.Thread(target=wait)
        thread.start()
        until(lambda: far.together > 0)
        threading.Timer(0.1, far.held.set).start()
        fetcher.close()
        thread.join(10)
        assert len(errors) == 1
        with pytest.raises(UnavailableError):
            fetcher.open("o", *far.size("o"))
        file.close()
