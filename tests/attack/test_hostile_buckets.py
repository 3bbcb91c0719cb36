"""Whoever can write to the bucket can make a store fail, and can't make it serve what is wrong."""

from __future__ import annotations

import itertools
import json
import shutil
import time
from typing import TYPE_CHECKING, Final

import pytest
from support.buckets import BucketServer, bucket_server
from support.services import ME, MODEL, REFRESH, Running

from sealcar.errors import (
    ConflictError,
    DamagedError,
    NotAuthenticError,
    NotFoundError,
    RolledBackError,
    SealcarError,
    UnknownFormatError,
    WrongStateError,
)
from sealcar_server.service.pruning import Wanted
from sealcar_server.service.values import ScopeKey

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

DET: Final = ScopeKey("ocr", "1", "det", "onnx")
ADDED: Final = ScopeKey("ocr", "1", "det", "qnn")
COMPILED: Final = b"compiled"
ROOT: Final = "a/store/"


class Bucket:
    """One with a store in it, in the hands of somebody else."""

    def __init__(self, server: BucketServer, folder: Path) -> None:
        self.server, self.folder, self.name = server, folder, server.make()
        self.place = server.place(self.name, patience=0.5)

    def filled(self) -> Bucket:
        """Make a store in it."""
        with self.daemon() as running:
            running.import_()
            running.import_("other")
            running.add_variant(ADDED, COMPILED)
        return self

    def copy(self, folder: Path) -> Bucket:
        """Return another one with the same objects, and a daemon that has seen the same."""
        made = Bucket(self.server, folder)
        for key in self.keys(""):
            made.put(key, self.get(key))
        for name in ("state", "kek"):
            if (self.folder / name).is_dir():
                shutil.copytree(self.folder / name, folder / name)
            else:
                shutil.copy(self.folder / name, folder / name)
        return made

    def daemon(self) -> Running:
        """Return a daemon, which remembers what it has seen, and nothing else."""
        return Running(self.folder, place=self.place)

    def keys(self, part: str) -> list[str]:
        """Return keys of the store that have this in them."""
        found = self.server.keys(self.name)
        return [key[len(ROOT) :] for key in found if part in key]

    def get(self, key: str) -> bytes:
        return self.server.content(self.name, ROOT + key)

    def put(self, key: str, data: bytes) -> None:
        self.server.operator.put_object(Bucket=self.name, Key=ROOT + key, Body=data)

    def drop(self, key: str) -> None:
        self.server.operator.delete_object(Bucket=self.name, Key=ROOT + key)

    def references(self, number: int) -> str:
        return self.keys(f"ocr/1/g/{number}/references-")[0]


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BucketServer]:
    with bucket_server(tmp_path_factory.mktemp("s3")) as running:
        yield running


@pytest.fixture(scope="module")
def template(server: BucketServer, tmp_path_factory: pytest.TempPathFactory) -> Bucket:
    return Bucket(server, tmp_path_factory.mktemp("template")).filled()


@pytest.fixture
def bucket(template: Bucket, tmp_path: Path) -> Bucket:
    return template.copy(tmp_path)


def everything(bucket: Bucket) -> list[SealcarError]:
    """Have a daemon do all that it does; return what failed, which may be anything typed."""
    failed: list[SealcarError] = []
    numbers = itertools.count()
    with bucket.daemon() as running:

        def read(scope: ScopeKey, right: bytes) -> None:
            assert running.read(scope) == right, "wrong bytes were served"

        acts: list[Callable[[], object]] = [
            lambda: read(DET, MODEL),
            lambda: read(ADDED, COMPILED),
            lambda: read(ScopeKey("ocr", "", "det", "onnx"), MODEL),
            lambda: read(ScopeKey("other", "", "det", "onnx"), MODEL),
            lambda: running.listing.list(ME, "", ("", ""), 10),
            lambda: running.looking.get(ME, "ocr", "1", 0),
            lambda: running.service.validator.validate(ME, "ocr", "1", 0),
            lambda: running.packages.verify(ME, "ocr", "1", 0, lambda *_: None),
            lambda: running.add_variant(ScopeKey("ocr", "1", "det", f"v{next(numbers)}")),
            lambda: running.import_("new"),
            lambda: running.service.choosing.choose(ME, "ocr", "1"),
            lambda: running.service.pruning.prune(ME, Wanted()),
            lambda: running.service.removing.remove(ME, "other", "1", 0),
        ]
        for act in acts:
            try:
                act()
            except SealcarError as error:
                failed.append(error)
    return failed


def test_of_an_honest_bucket_everything_succeeds(bucket: Bucket) -> None:
    assert everything(bucket) == []


def test_payloads_that_are_exchanged_arent_authentic(bucket: Bucket) -> None:
    first, second = bucket.keys("ocr/1/p/")
    one, two = bucket.get(first), bucket.get(second)
    bucket.put(first, two)
    bucket.put(second, one)
    with bucket.daemon() as running:
        for scope in (DET, ADDED):
            with pytest.raises(DamagedError):
                running.read(scope)
    assert everything(bucket)


def test_a_payload_that_is_cut_or_grows_isnt_authentic(bucket: Bucket) -> None:
    whole = {key: bucket.get(key) for key in bucket.keys("ocr/1/p/")}
    for size in (0, 1, 100, 1 << 20):
        for key, data in whole.items():
            bucket.put(key, data[:size] if size < len(data) else data + bytes(size))
        with bucket.daemon() as running:
            for scope in (DET, ADDED):
                with pytest.raises(DamagedError):
                    running.read(scope)
    assert everything(bucket)


def test_a_payload_that_is_gone_is_told_and_nothing_else_fails(bucket: Bucket) -> None:
    for key in bucket.keys("ocr/1/p/"):
        bucket.drop(key)
    with bucket.daemon() as running:
        with pytest.raises((DamagedError, NotFoundError)):
            running.read(DET)
        assert running.read(ScopeKey("other", "1", "det", "onnx")) == MODEL
    assert everything(bucket)


def test_a_newest_generation_that_is_gone_is_a_rollback(bucket: Bucket) -> None:
    for key in bucket.keys("ocr/1/g/2/"):
        bucket.drop(key)
    with bucket.daemon() as running, pytest.raises(RolledBackError):
        running.read(DET)
    assert everything(bucket)


def test_a_newest_generation_that_is_emptied_as_a_pruned_one_is_a_rollback(bucket: Bucket) -> None:
    bucket.put("ocr/1/g/2/manifest.json", b"")
    with bucket.daemon() as running, pytest.raises(RolledBackError):
        running.read(DET)
    assert everything(bucket)


def test_an_older_manifest_in_the_place_of_a_newer_one_is_refused(bucket: Bucket) -> None:
    bucket.put("ocr/1/g/2/manifest.json", bucket.get("ocr/1/g/1/manifest.json"))
    with bucket.daemon() as running, pytest.raises(NotAuthenticError):
        running.read(DET)
    assert everything(bucket)


def test_another_packages_generation_is_refused(bucket: Bucket) -> None:
    for key in bucket.keys("other/1/"):
        bucket.put(
            key.replace("other/1/g/1/", "ocr/1/g/3/").replace("other", "ocr"), bucket.get(key)
        )
    with bucket.daemon() as running, pytest.raises(NotAuthenticError):
        running.read(DET)
    assert everything(bucket)


def test_an_older_pointer_is_a_rollback_and_a_forged_one_is_refused(bucket: Bucket) -> None:
    old = bucket.get("ocr/current")
    with bucket.daemon() as running:
        running.import_(version="2")
    bucket.put("ocr/current", old)
    with bucket.daemon() as running, pytest.raises(RolledBackError):
        running.read(ScopeKey("ocr", "", "det", "onnx"))
    bucket.put("ocr/current", bucket.get("other/current"))
    with bucket.daemon() as running, pytest.raises(NotAuthenticError):
        running.read(ScopeKey("ocr", "", "det", "onnx"))
    assert everything(bucket)


def test_a_note_that_a_version_was_removed_is_believed_under_the_stores_key_only(
    bucket: Bucket,
) -> None:
    with bucket.daemon() as running:
        running.service.removing.remove(ME, "other", "1", 0)
    note = bucket.get("other/1/removed")
    saved = {key: bucket.get(key) for key in bucket.keys("ocr/1/g/")}
    for key in saved:
        bucket.drop(key)
    for forged in (note, note.replace(b"other", b"ocr"), b"{}", b"", b"x" * 100_000):
        bucket.put("ocr/1/removed", forged)
        with bucket.daemon() as running, pytest.raises(DamagedError):
            running.read(DET)
    bucket.put("ocr/1/tombstone", note)
    with bucket.daemon() as running, pytest.raises(DamagedError):
        running.read(DET)
    assert everything(bucket)


@pytest.mark.parametrize("how", ["a tombstone", "what is missing"])
def test_who_makes_it_look_as_if_a_version_was_removed_gets_no_note_of_that(
    bucket: Bucket, how: str
) -> None:
    with bucket.daemon() as running:
        transaction = running.begin(ScopeKey("ocr", "1", "det", "late"))
        staging = transaction.staging
        staging.link_payload(running.store.generation("ocr", "1", 2), "det", "onnx", "model.onnx")
        if how == "a tombstone":
            bucket.put("ocr/1/tombstone", b"x")
        else:
            bucket.drop("ocr/1/g/2/manifest.json")
            for key in bucket.keys("ocr/1/p/"):
                bucket.drop(key)
        with pytest.raises(ConflictError, match="removed meanwhile"):
            staging.publish(b"{}", 3)
        transaction.abort()
    # with it, another package could be put in its place
    assert bucket.keys("ocr/1/removed") == []
    assert bucket.keys("ocr/1/g/3/") == []


def test_references_that_no_store_writes_are_refused(bucket: Bucket) -> None:
    first, second = b"0" * 32, b"1" * 32
    for references in (
        b"",
        b"{}",
        b"[]",
        b"\xff\xfe",
        b'{"format":"1","payloads":[]}',
        b'{"format":"1","payloads":{"det/onnx/model.onnx":"../../other/1/p/x"}}',
        b'{"format":"1","payloads":{"det/onnx/model.onnx":7}}',
        b'{"format":"2","payloads":{}}',
        b'{"format":"1","payloads":{},"more":1}',
        b'{"format":"1","payloads":{"a":"%b","a":"%b"}}' % (first, second),
        b"[" * 100_000,
    ):
        bucket.put(bucket.references(2), references)
        with bucket.daemon() as running, pytest.raises(DamagedError):
            running.read(DET)
    assert everything(bucket)


def test_references_that_lead_to_another_payload_make_none_authentic(bucket: Bucket) -> None:
    key = bucket.references(2)
    found = json.loads(bucket.get(key))
    payloads = found["payloads"]
    paths = list(payloads)
    found["payloads"] = dict(zip(paths, reversed(payloads.values()), strict=True))
    bucket.put(key, json.dumps(found).encode())
    with bucket.daemon() as running, pytest.raises(DamagedError):
        running.read(DET)
    for ident in ("0" * 32, "f" * 32):
        found["payloads"] = dict.fromkeys([*paths, "../../../etc/passwd", "\x01"], ident)
        bucket.put(key, json.dumps(found).encode())
        with bucket.daemon() as running, pytest.raises((DamagedError, NotFoundError)):
            running.read(DET)
    assert everything(bucket)


def test_the_only_references_beside_an_edited_manifest_are_used_and_of_two_none(
    bucket: Bucket,
) -> None:
    key = "ocr/1/g/2/manifest.json"
    # as a program does that writes JSON in its own way
    bucket.put(key, json.dumps(json.loads(bucket.get(key)), indent=4).encode())
    with bucket.daemon() as running:
        assert running.read(DET) == MODEL
    bucket.put(f"ocr/1/g/2/references-{'0' * 32}.json", b'{"format":"1","payloads":{}}')
    with bucket.daemon() as running, pytest.raises(SealcarError):
        running.read(DET)
    assert everything(bucket)


@pytest.mark.parametrize("key", ["..", "ocr/../x", "ocr//1/x", "ocr/1/g/3\x01/x"])
def test_keys_that_lead_elsewhere_make_lists_fail_typed(bucket: Bucket, key: str) -> None:
    bucket.put(key, b"x")
    failed = everything(bucket)
    assert failed
    assert {type(error) for error in failed} <= {NotAuthenticError, NotFoundError}


def test_keys_that_no_store_writes_are_passed_over(bucket: Bucket) -> None:
    for key in (
        "k" * 900,
        "OCR/1/g/1/manifest.json",
        "ocr/1/g/0/manifest.json",
        "ocr/1/g/01/manifest.json",
        "ocr/1/g/99999999999999999999/manifest.json",
        "ocr/1/g/3/manifest.json.bak",
        "ocr/1/g/3/references-x.json",
        "ocr/1/p/zzz",
        "ocr/1/x",
        "ocr/current/g/1/manifest.json",
        "store.json/1/g/1/manifest.json",
        "assets/1/g/1/manifest.json",
        "ocr/-/g/1/manifest.json",
        "deep/" * 100 + "x",
    ):
        bucket.put(key, b"x")
    assert everything(bucket) == []


def test_a_generation_with_the_last_number_there_is_makes_no_import_that_nobody_sees(
    bucket: Bucket,
) -> None:
    bucket.put(f"other/1/g/{'9' * 18}/manifest.json", b"x")
    with bucket.daemon() as running:
        running.service.removing.remove(ME, "other", "1", 0)
        with pytest.raises(WrongStateError, match="another version"):
            running.import_("other")
        running.import_("other", "2")
        assert running.read(ScopeKey("other", "", "det", "onnx")) == MODEL


def test_what_is_larger_than_it_may_be_is_refused(bucket: Bucket) -> None:
    for key, size in (
        ("ocr/current", 1 << 20),
        ("ocr/1/tombstone", 1 << 20),
        ("ocr/1/g/2/manifest.json", 17 << 20),
        ("ocr/1/g/3/manifest.json", 17 << 20),
    ):
        before = bucket.get(key) if bucket.keys(key) else None
        bucket.put(key, b"x" * size)
        with bucket.daemon() as running, pytest.raises(DamagedError):
            running.read(ScopeKey("ocr", "", "det", "onnx"))
        bucket.drop(key)
        if before is not None:
            bucket.put(key, before)
    assert everything(bucket) == []


def test_a_store_that_says_nothing_sensible_of_itself_isnt_opened(bucket: Bucket) -> None:
    for data in (b"", b"{}", b"x" * 100_000, b'{"format":"9"}'):
        bucket.put("store.json", data)
        with pytest.raises((NotAuthenticError, UnknownFormatError)):
            bucket.daemon()


def test_another_stores_identity_isnt_taken_over_while_it_runs(bucket: Bucket) -> None:
    with bucket.daemon() as running:
        found = json.loads(bucket.get("store.json"))
        found["store_id"] = "A" * 22
        bucket.put("store.json", json.dumps(found).encode())
        time.sleep(REFRESH)
        with pytest.raises(NotAuthenticError, match="another store's"):
            running.import_("x")
