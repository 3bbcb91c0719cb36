"""What a daemon does with packages, over a bucket that two share, each with a state of its own."""

from __future__ import annotations

import os
import shutil
import threading
import time
from collections import Counter
from contextlib import contextmanager
from typing import TYPE_CHECKING

import pytest
from support import services
from support.asset_packages import AssetPackage
from support.buckets import Trouble
from support.services import KEK, ME, MODEL, REFRESH, Running

from sealcar.errors import (
    AlreadyExistsError,
    ConflictError,
    NotFoundError,
    StorageError,
    WrongStateError,
)
from sealcar_server.service.pruning import Wanted
from sealcar_server.service.store_key import StoreKey
from sealcar_server.service.values import ScopeKey
from sealcar_server.store.bucket.asking import Unobserved
from sealcar_server.store.bucket.objects import Objects
from sealcar_server.store.bucket.options import Options
from sealcar_server.store.bucket.store import BucketStore

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from support.buckets import BucketServer

    from sealcar_server.keys.provider import WrappedKey

# a busy machine looks again later than it would
PATIENCE = 10.0
BASE = ScopeKey("ocr", "", "det", "onnx")
DET = ScopeKey("ocr", "1", "det", "onnx")


@contextmanager
def pair(
    server: BucketServer, tmp_path: Path, abandoned: float = 0
) -> Iterator[tuple[Running, Running, str]]:
    """Run two of them, with the same keys, over one bucket."""
    bucket = server.make()
    place = server.place(bucket)
    with Running(tmp_path / "one", place=place, abandoned=abandoned) as one:
        (tmp_path / "two").mkdir()
        shutil.copy(tmp_path / "one" / "kek", tmp_path / "two" / "kek")
        with Running(tmp_path / "two", place=place) as two:
            yield one, two, bucket


@pytest.fixture
def both(s3_server: BucketServer, tmp_path: Path) -> Iterator[tuple[Running, Running, str]]:
    with pair(s3_server, tmp_path) as made:
        yield made


class Counting(Unobserved):
    """Counts requests by kind; those that failed for now, or for good, apart."""

    def __init__(self, counted: Counter[str]) -> None:
        self._counted = counted

    def asked(self, kind: str, outcome: str) -> None:
        self._counted[kind if outcome in {"ok", "absent"} else outcome] += 1


def noticed(running: Running, number: int, name: str = "ocr", version: str = "1") -> None:
    """Wait until a service knows that a generation is the newest; it has to be soon."""
    end = time.monotonic() + PATIENCE
    while running.store.newest(name, version) != number:
        assert time.monotonic() < end
        time.sleep(0.02)


def test_what_one_imports_the_other_lists_and_reads(both: tuple[Running, Running, str]) -> None:
    one, two, _ = both
    one.import_()
    assert two.read(BASE) == MODEL
    assert one.read(BASE) == MODEL
    found = two.looking.get(ME, "ocr", "", 0)
    assert found.generations == (1,)
    assert found.versions == ("1",)
    assert [each.name for each in two.listing.list(ME, "", ("", ""), 10)] == ["ocr"]
    with pytest.raises(AlreadyExistsError):
        two.import_()


def test_a_variant_that_one_adds_is_read_by_the_other_and_nothing_is_copied(
    both: tuple[Running, Running, str], s3_server: BucketServer
) -> None:
    one, two, bucket = both
    one.import_()
    assert two.read(BASE) == MODEL
    one.add_variant(ScopeKey("ocr", "", "det", "qnn"), b"compiled by one")
    noticed(two, 2)
    assert two.read(ScopeKey("ocr", "", "det", "qnn")) == b"compiled by one"
    assert two.read(BASE) == MODEL
    payloads = [key for key in s3_server.keys(bucket) if "/p/" in key]
    assert len(payloads) == 2
    assert two.packages.verify(ME, "ocr", "1", 0, lambda *_: None).generation == 2


def test_of_two_that_publish_at_once_both_variants_are_there(
    both: tuple[Running, Running, str],
) -> None:
    one, two, _ = both
    one.import_()
    assert two.read(BASE) == MODEL
    start = threading.Barrier(2)
    errors: list[BaseException] = []

    def write(running: Running, name: str) -> None:
        try:
            for number in range(3):
                scope = ScopeKey("ocr", "", "det", f"{name}-{number}")
                transaction = running.begin(scope)
                running.write(transaction, "model.onnx", scope.variant.encode())
                start.wait(20)
                running.commit(transaction)
        except BaseException as error:  # noqa: BLE001  (told below)
            errors.append(error)
            start.abort()

    threads = [threading.Thread(target=write, args=pairs) for pairs in ((one, "one"), (two, "two"))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not errors
    noticed(one, 7)
    noticed(two, 7)
    for running in (one, two):
        for name in ("one", "two"):
            for number in range(3):
                variant = f"{name}-{number}"
                assert running.read(ScopeKey("ocr", "", "det", variant)) == variant.encode()
    # whoever came second left nothing of its first attempt
    assert two.store.clean() == []


def test_of_two_that_change_the_same_variant_one_is_told(
    both: tuple[Running, Running, str],
) -> None:
    one, two, _ = both
    one.import_()
    scope = ScopeKey("ocr", "", "det", "qnn")
    begun = [(running, running.begin(scope)) for running in (one, two)]
    for running, transaction in begun:
        running.write(transaction, "model.onnx", b"x")
    one.commit(begun[0][1])
    with pytest.raises(ConflictError):
        two.commit(begun[1][1])
    begun[1][1].abort()
    assert two.store.clean() == []


def test_of_two_imports_of_one_version_at_once_one_is_told(
    both: tuple[Running, Running, str],
) -> None:
    one, two, _ = both
    start = threading.Barrier(2)
    outcomes: list[object] = []

    def import_(running: Running) -> None:
        start.wait(20)
        try:
            outcomes.append(running.import_("twice").generation)
        except AlreadyExistsError as error:
            outcomes.append(type(error))

    threads = [threading.Thread(target=import_, args=(running,)) for running in (one, two)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(map(str, outcomes)) == ["1", str(AlreadyExistsError)]
    for running in (one, two):
        assert running.read(ScopeKey("twice", "", "det", "onnx")) == MODEL


def test_versions_that_both_import_leave_one_pointer_to_one_of_them(
    both: tuple[Running, Running, str],
) -> None:
    one, two, _ = both
    one.import_(version="0")
    threads = [
        threading.Thread(target=running.import_, args=("ocr", version))
        for running, version in ((one, "1"), (two, "2"))
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    time.sleep(2 * REFRESH)
    found = {running.looking.get(ME, "ocr", "", 0).summary.version for running in (one, two)}
    assert len(found) == 1
    assert found < {"1", "2"}


def test_what_one_prunes_leaves_whole_what_others_refer_to(
    both: tuple[Running, Running, str], s3_server: BucketServer
) -> None:
    one, two, bucket = both
    one.import_()
    for number in range(4):
        (one, two)[number % 2].add_variant(ScopeKey("ocr", "", "det", "qnn"), b"%d" % number)
        noticed((two, one)[number % 2], number + 2)
    time.sleep(2 * REFRESH)
    pruned = two.service.pruning.prune(ME, Wanted("ocr"))
    assert [number for _, _, number in pruned.generations] == [3, 2, 1]
    assert pruned.freed > 0
    noticed(one, 5)
    for running in (one, two):
        assert running.packages.verify(ME, "ocr", "1", 0, lambda *_: None).generation == 5
        assert running.packages.verify(ME, "ocr", "1", 4, lambda *_: None).generation == 4
        assert running.read(BASE) == MODEL
    # of the imported one, and of the last two that were compiled
    assert len([key for key in s3_server.keys(bucket) if "/p/" in key]) == 3


def test_a_number_that_was_pruned_is_never_used_again(
    s3_server: BucketServer, tmp_path: Path
) -> None:
    with pair(s3_server, tmp_path, abandoned=3600) as (one, two, _):
        one.import_()
        late = two.store.stage("ocr", "1")
        for number in range(3):
            one.add_variant(ScopeKey("ocr", "", "det", "qnn"), b"%d" % number)
        time.sleep(2 * REFRESH)
        one.service.pruning.prune(ME, Wanted("ocr"))
        with late, pytest.raises(ConflictError):
            late.publish(b"{}", 2)
        assert two.store.numbers("ocr", "1") == [4, 3]
        assert two.read(BASE) == MODEL


def test_what_one_removes_the_other_serves_no_longer(both: tuple[Running, Running, str]) -> None:
    one, two, _ = both
    one.import_()
    one.import_(version="2")
    exact = ScopeKey("ocr", "1", "det", "onnx", 1)
    assert two.read(exact) == MODEL
    one.service.removing.remove(ME, "ocr", "1", 0)
    end = time.monotonic() + PATIENCE
    while True:
        try:
            two.read(exact)
        except NotFoundError:
            break
        assert time.monotonic() < end
        time.sleep(0.05)
    assert two.store.versions("ocr") == ["2"]


def test_a_version_that_is_removed_while_another_daemon_publishes_stays_removed(
    both: tuple[Running, Running, str],
) -> None:
    one, two, _ = both
    one.import_()
    one.import_(version="2")
    late = two.begin(ScopeKey("ocr", "1", "det", "qnn"))
    two.write(late, "model.onnx", b"late")
    staging = late.staging
    place = two.store.generation("ocr", "1", 1)
    staging.link_payload(place, "det", "onnx", "model.onnx")
    one.service.removing.remove(ME, "ocr", "1", 0)
    with pytest.raises(ConflictError, match="removed meanwhile"):
        staging.publish(b"{}", 2)
    late.abort()
    time.sleep(2 * REFRESH)
    assert two.store.versions("ocr") == ["2"]
    # nothing is left of it but the numbers that were used
    assert [use.size for use in two.store.clean()] == [0]
    assert two.store.clean() == []
    # nor is the number used again that somebody may have seen
    assert one.import_().generation == 3


@pytest.mark.parametrize("trouble", ["the answer is lost", "what is checked then can't be"])
def test_a_generation_whose_writer_wasnt_told_that_it_is_there_is_whole(
    s3_server: BucketServer, tmp_path: Path, trouble: str
) -> None:
    bucket = s3_server.make()
    between = Trouble(s3_server.port)
    try:
        place = s3_server.place(bucket, port=between.port, patience=0.3)
        with Running(tmp_path, place=place) as running:
            running.import_()
            transaction = running.begin(ScopeKey("ocr", "1", "det", "qnn"))
            running.write(transaction, "model.onnx", b"compiled")

            def wanted(method: str, path: str) -> str:
                if path.endswith("/tombstone"):
                    return "503"
                lost = method == "PUT" and path.endswith("/g/2/manifest.json")
                return "lost" if lost and trouble == "the answer is lost" else ""

            between.wanted = wanted
            with pytest.raises(StorageError):
                running.commit(transaction)
            between.wanted = lambda _method, _path: ""
            transaction.abort()
    finally:
        between.close()
    # somebody else sees it by now, and may have built on it
    with Running(tmp_path, place=s3_server.place(bucket)) as running:
        assert running.read(ScopeKey("ocr", "1", "det", "qnn")) == b"compiled"
        assert running.packages.verify(ME, "ocr", "1", 0, lambda *_: None).generation == 2
        assert running.store.clean() == []


def test_what_was_published_elsewhere_a_moment_ago_is_shredded_too(
    s3_server: BucketServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # a list that the one who shreds believes for long
    monkeypatch.setattr(services, "REFRESH", 60.0)
    with pair(s3_server, tmp_path) as (one, two, bucket):
        one.import_()
        assert two.store.names() == ["ocr"]
        one.add_variant(ScopeKey("ocr", "1", "det", "qnn"))
        two.service.keys.shred("ocr", "1")
        left = [key for key in s3_server.keys(bucket) if "/ocr/1/" in key]
        assert all(key.endswith(("/tombstone", "/manifest.json")) for key in left)
        # with a manifest the wrapped key would stay
        assert not any(
            s3_server.content(bucket, key) for key in left if key.endswith("/manifest.json")
        )


def test_what_a_list_shows_as_left_is_looked_at_again_before_it_is_removed(
    s3_server: BucketServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(services, "REFRESH", 60.0)
    bucket = s3_server.make()
    with Running(tmp_path, place=s3_server.place(bucket)) as running:
        running.import_()
        running.add_variant(ScopeKey("ocr", "1", "det", "qnn"), b"compiled")
        key = "a/store/ocr/1/g/2/manifest.json"
        manifest = s3_server.content(bucket, key)
        s3_server.operator.delete_object(Bucket=bucket, Key=key)
        assert running.store.names() == ["ocr"]
        # as if it were published only now
        s3_server.operator.put_object(Bucket=bucket, Key=key, Body=manifest)
        assert running.store.clean() == []
        assert running.read(ScopeKey("ocr", "1", "det", "qnn")) == b"compiled"


def test_of_two_that_move_the_stores_key_the_slower_one_takes_nothing_back(
    both: tuple[Running, Running, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    one, two, _ = both
    one.keyring.rotate(KEK)
    rewrap = one.keyring.rewrap

    def overtaken(alias: str, wrapped: WrappedKey, context: bytes) -> WrappedKey:
        found = rewrap(alias, wrapped, context)
        monkeypatch.undo()
        one.keyring.rotate(KEK)
        StoreKey(two.store, one.keyring).move()
        time.sleep(2 * REFRESH)
        # as whoever opens a package meanwhile
        assert one.store.identity.kek_version == "3"
        return found

    monkeypatch.setattr(one.keyring, "rewrap", overtaken)
    with pytest.raises(ConflictError):
        StoreKey(one.store, one.keyring).move()
    # version 2 may be destroyed by now
    assert one.store.identity.kek_version == "3"


def test_asking_again_and_again_for_what_is_gone_costs_no_more_requests(
    s3_server: BucketServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(services, "REFRESH", 60.0)
    counted: Counter[str] = Counter()
    place = s3_server.place(s3_server.make())
    with Running(tmp_path, place=place, observer=Counting(counted)) as running:
        for name in ("removed", "shredded"):
            running.import_(name)
        running.service.removing.remove(ME, "removed", "1", 0)
        running.service.keys.shred("shredded", "1")
        for times in range(3):
            for name in ("removed", "shredded"):
                for version in ("", "1"):
                    with pytest.raises(NotFoundError):
                        running.read(ScopeKey(name, version, "det", "onnx"))
            if not times:
                counted.clear()
        assert not counted


def test_of_two_that_publish_the_very_same_manifest_the_first_ones_payloads_are_meant(
    both: tuple[Running, Running, str], s3_server: BucketServer
) -> None:
    one, two, bucket = both
    staged = [running.store.stage("ocr", "1") for running in (one, two)]
    for staging in staged:
        os.close(staging.create_payload("det", "onnx", "model.onnx"))
    staged[0].publish(b"the same", 7)
    before = {key: s3_server.content(bucket, key) for key in s3_server.keys(bucket)}
    with staged[1], pytest.raises(ConflictError):
        staged[1].publish(b"the same", 7)
    assert {key: s3_server.content(bucket, key) for key in s3_server.keys(bucket)} == before


def test_an_equal_asset_of_another_package_is_copied_by_the_service(
    s3_server: BucketServer, tmp_path: Path
) -> None:
    counted: Counter[str] = Counter()
    place = s3_server.place(s3_server.make())
    files = {"weights.bin": bytes(range(256)) * 4096, "deep/er/merges": b"a b"}
    package = AssetPackage.with_weights(files)
    with Running(tmp_path, place=place, observer=Counting(counted)) as running:
        package.import_into(running, "first")
        counted.clear()
        package.import_into(running, "second")
        assert counted["copy"] == len(files)
        # its own model
        assert counted["upload"] == 1
        assets = {
            name: running.looking.get(ME, name, "", 0).assets[0].uri for name in ("first", "second")
        }
        assert len(set(assets.values())) == 1
        scope = running.add_variant(ScopeKey("second", "", "det", "qnn"))
        running.service.removing.remove(ME, "first", "1", 0)
        found = running.packages.verify(ME, "second", "1", 0, lambda *_: None)
        assert found.generation == scope.generation == 2
        assert running.service.validator.validate(ME, "second", "1", 0).findings == ()


def test_a_version_is_removed_and_imported_at_both_ends_again_and_again(
    both: tuple[Running, Running, str],
) -> None:
    one, two, _ = both
    for number in range(6):
        here, there = (one, two) if number % 2 else (two, one)
        data = b"%d" % number
        here.import_(payloads={("det", "onnx", "model.onnx"): data})
        here.add_variant(ScopeKey("ocr", "1", "det", "qnn"), data)
        # numbers go on, so no daemon takes one package for the other
        noticed(there, 2 * number + 2)
        assert there.read(DET) == data
        there.service.removing.remove(ME, "ocr", "1", 0)
    for running in (one, two):
        with pytest.raises(NotFoundError):
            running.read(DET)


def test_a_store_that_is_only_read_is_read(s3_server: BucketServer, tmp_path: Path) -> None:
    place = s3_server.place(s3_server.make())
    with Running(tmp_path / "one", place=place) as one:
        one.import_()
    with Running(tmp_path / "one", place=place, read_only=True) as reader:
        assert reader.read(BASE) == MODEL
        with pytest.raises(WrongStateError, match="read-only"):
            reader.import_(version="2")
        with pytest.raises(WrongStateError, match="read-only"):
            reader.store.remove("ocr", "1", 1)


def test_what_writers_left_is_removed_once_it_is_old_enough(
    s3_server: BucketServer, tmp_path: Path
) -> None:
    bucket = s3_server.make()
    place = s3_server.place(bucket)
    # as of one who was killed: nothing refers to it
    left = {f"a/store/ocr/1/{key}{'0' * 32}" for key in ("p/", "g/7/references-")}
    left = {f"{key}.json" if "references" in key else key for key in left}
    with Running(tmp_path, place=place, abandoned=3600) as careful:
        careful.import_()
        for key in left:
            s3_server.operator.put_object(Bucket=bucket, Key=key, Body=b"x" * 500)
        assert careful.service.pruning.prune(ME, Wanted("ocr")).freed == 0
        assert left < set(s3_server.keys(bucket))
    with Running(tmp_path, place=place) as running:
        assert running.service.pruning.prune(ME, Wanted("ocr", dry_run=True)).freed == 1000
        assert left < set(s3_server.keys(bucket))
        assert running.service.pruning.prune(ME, Wanted("ocr")).freed == 1000
        assert not left & set(s3_server.keys(bucket))
        assert running.read(BASE) == MODEL
        # and somebody else's directory is nobody's
        with pytest.raises(StorageError, match="another daemon has its copies"):
            Running(tmp_path, place=place)


def test_a_version_in_use_costs_two_small_requests_a_refresh_and_no_list(
    s3_server: BucketServer, tmp_path: Path
) -> None:
    place = s3_server.place(s3_server.make())
    with Running(tmp_path / "one", place=place) as one:
        one.import_()
        counted: Counter[str] = Counter()
        objects = Objects(place, Counting(counted))
        (tmp_path / "copies").mkdir(mode=0o700)
        with BucketStore.open(tmp_path / "copies", objects, Options(refresh=REFRESH)) as store:
            assert store.newest("ocr", "1") == 1
            counted.clear()
            end = time.monotonic() + 5 * REFRESH
            asked = 0
            while time.monotonic() < end:
                assert store.newest("ocr", "1") == 1
                asked += 1
            assert asked > 100
            assert set(counted) == {"read"}
            assert 2 <= counted["read"] <= 2 * 6
            one.add_variant(ScopeKey("ocr", "", "det", "qnn"))
            end = time.monotonic() + PATIENCE
            while store.newest("ocr", "1") != 2:
                assert time.monotonic() < end
            assert "list" not in counted


def test_a_list_of_packages_that_are_known_costs_one_list(
    s3_server: BucketServer, tmp_path: Path
) -> None:
    counted: Counter[str] = Counter()
    place = s3_server.place(s3_server.make())
    with Running(tmp_path, place=place, observer=Counting(counted)) as running:
        for number in range(12):
            running.import_(f"p{number:02}", payloads={("det", "onnx", "model.onnx"): b"small"})
    with Running(tmp_path, place=place, observer=Counting(counted)) as running:
        counted.clear()
        for times in (1, 2, 2):
            listed = running.listing.list(ME, "", ("", ""), 100)
            assert [each.name for each in listed] == [f"p{number:02}" for number in range(12)]
            assert counted["list"] <= times
            # pointers and manifests, once
            assert counted["read"] == 24
            time.sleep(REFRESH if times == 1 else 0)
