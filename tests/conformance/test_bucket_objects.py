"""The objects of a bucket, against a server that others wrote."""

from __future__ import annotations

import os
import ssl
import tempfile
import threading
from collections import Counter
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest
import trustme
from support.buckets import ID, SECRET, BucketServer, Trouble

from sealcar.errors import (
    ConflictError,
    NotAuthenticError,
    NotFoundError,
    SealcarError,
    StorageError,
)
from sealcar_server.store.bucket.objects import Objects

if TYPE_CHECKING:
    from collections.abc import Iterator

    from sealcar_server.store.bucket.connection import Place

_BIG = 20 << 20


class Counting:
    """Counts what it is told."""

    def __init__(self) -> None:
        self.requests: Counter[tuple[str, str]] = Counter()
        self.bytes: Counter[str] = Counter()

    def asked(self, kind: str, outcome: str) -> None:
        self.requests[kind, outcome] += 1

    def moved(self, direction: str, size: int) -> None:
        self.bytes[direction] += size


@pytest.fixture(scope="module")
def objects(s3_server: BucketServer) -> Iterator[Objects]:
    with s3_server.objects(s3_server.make()) as made:
        yield made


@pytest.fixture
def trouble(s3_server: BucketServer) -> Iterator[Trouble]:
    made = Trouble(s3_server.port)
    yield made
    made.close()


def _troubled(s3_server: BucketServer, trouble: Trouble, patience: float = 10.0) -> Objects:
    return Objects(s3_server.place(s3_server.make(), port=trouble.port, patience=patience))


def test_what_is_created_is_read_and_created_once(objects: Objects) -> None:
    etag = objects.create("once/a", b"first")
    assert objects.read("once/a", 100) == (b"first", etag)
    assert objects.size("once/a") == (5, etag)
    with pytest.raises(ConflictError):
        objects.create("once/a", b"second")
    assert objects.read("once/a", 100) == (b"first", etag)


def test_creating_what_is_there_with_the_very_same_bytes_is_no_conflict(objects: Objects) -> None:
    etag = objects.create("same/a", b"first")
    assert objects.create("same/a", b"first") == etag


def test_only_the_object_that_was_read_is_replaced(objects: Objects) -> None:
    first = objects.create("replaced/a", b"first")
    second = objects.replace("replaced/a", b"second", first)
    with pytest.raises(ConflictError):
        objects.replace("replaced/a", b"third", first)
    with pytest.raises(ConflictError):
        objects.replace("replaced/none", b"third", first)
    assert objects.read("replaced/a", 100) == (b"second", second)


def test_of_many_that_create_at_once_one_does(objects: Objects) -> None:
    done, failed = [], []
    start = threading.Barrier(8)

    def create(number: int) -> None:
        start.wait()
        try:
            objects.create("race/a", b"%d" % number)
        except ConflictError:
            failed.append(number)
        else:
            done.append(number)

    threads = [threading.Thread(target=create, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(done) == 1
    assert len(failed) == 7
    assert objects.read("race/a", 10)[0] == b"%d" % done[0]


def test_what_is_known_isnt_sent_again(objects: Objects) -> None:
    etag = objects.create("known/a", b"first")
    assert objects.read_changed("known/a", 100, etag) is None
    other = objects.write("known/a", b"second")
    assert objects.read_changed("known/a", 100, etag) == (b"second", other)


def test_a_small_object_that_is_large_is_refused(objects: Objects) -> None:
    objects.write("large/a", b"x" * 101)
    with pytest.raises(NotAuthenticError, match="longer than 100"):
        objects.read("large/a", 100)


def test_what_isnt_there_is_told_as_such(objects: Objects) -> None:
    with pytest.raises(NotFoundError):
        objects.read("none/a", 100)
    with pytest.raises(NotFoundError):
        objects.size("none/a")
    with pytest.raises(NotFoundError):
        objects.copy("none/a", "none/b")
    with pytest.raises(NotFoundError):
        objects.read_range("none/a", 0, memoryview(bytearray(1)), etag='"x"')
    objects.remove(["none/a", "none/b"])
    assert objects.listed("none") == []


def test_a_large_file_is_uploaded_in_parts_and_read_in_ranges(objects: Objects) -> None:
    data = os.urandom(_BIG)
    with tempfile.TemporaryFile() as file:
        file.write(data)
        file.flush()
        etag = objects.upload("big/a", file.fileno())
    assert objects.size("big/a") == (_BIG, etag)
    target = bytearray(3 << 20)
    objects.read_range("big/a", 7 << 20, memoryview(target), etag=etag)
    assert target == data[7 << 20 : 10 << 20]
    objects.read_range("big/a", 0, memoryview(target)[:0], etag=etag)
    objects.copy("big/a", "big/b")
    assert objects.size("big/b")[0] == _BIG


def test_a_range_of_another_object_or_beyond_its_end_fails(objects: Objects) -> None:
    etag = objects.write("ranges/a", b"0123456789")
    target = memoryview(bytearray(4))
    with pytest.raises(NotAuthenticError, match="replaced"):
        objects.read_range("ranges/a", 0, target, etag='"other"')
    objects.read_range("ranges/a", 6, target, etag=etag)
    assert bytes(target) == b"6789"
    impatient = Objects(_impatient(objects))
    with pytest.raises(StorageError, match="length"):
        impatient.read_range("ranges/a", 8, target, etag=etag)
    with pytest.raises(StorageError, match="416"):
        impatient.read_range("ranges/a", 100, target, etag=etag)


def test_lists_have_every_object(objects: Objects) -> None:
    for key in ("lists/a/1", "lists/a/2", "lists/b/1+2._-x", "lists2/a"):
        objects.write(key, b"x")
    found = objects.listed("lists")
    assert [one.key for one in found] == ["lists/a/1", "lists/a/2", "lists/b/1+2._-x"]
    assert {one.size for one in found} == {1}
    assert found[0].modified > 1e9
    objects.remove([one.key for one in found])
    assert objects.listed("lists") == []


@pytest.mark.parametrize("key", ["..", "a/../b", "x//y", "x/\x01c"])
def test_keys_that_no_store_has_end_a_list_with_a_typed_error(
    s3_server: BucketServer, key: str
) -> None:
    bucket = s3_server.make()
    s3_server.operator.put_object(Bucket=bucket, Key=f"a/store/{key}", Body=b"x")
    with pytest.raises(NotAuthenticError, match="no store has"):
        s3_server.objects(bucket).listed("")


def test_what_fails_for_now_is_asked_again(s3_server: BucketServer, trouble: Trouble) -> None:
    counting = Counting()
    objects = Objects(s3_server.place(s3_server.make(), port=trouble.port), counting)
    trouble.first(3, "503")
    etag = objects.create("a", b"x" * 1000)
    assert counting.requests == {("create", "again"): 3, ("create", "ok"): 1}
    for what in ("503", "cut", "lost"):
        trouble.first(2, what)
        assert objects.read("a", 1000)[0] == b"x" * 1000
        trouble.first(2, what)
        target = bytearray(500)
        objects.read_range("a", 100, memoryview(target), etag=etag)
        assert target == b"x" * 500
    assert counting.requests["read", "again"] == 6
    assert counting.requests["range", "again"] == 6
    assert counting.bytes == {"out": 1000, "in": 4500}


def test_a_conditional_write_whose_answer_is_lost_is_found_to_be_ones_own(
    s3_server: BucketServer, trouble: Trouble
) -> None:
    objects = _troubled(s3_server, trouble)
    trouble.first(1, "lost", "PUT")
    etag = objects.create("a", b"first")
    trouble.first(1, "lost", "PUT")
    etag = objects.replace("a", b"second", etag)
    assert objects.read("a", 100) == (b"second", etag)


def test_of_two_writes_at_the_same_time_one_that_s3_wants_again_is_sent_again(
    s3_server: BucketServer, trouble: Trouble
) -> None:
    objects = _troubled(s3_server, trouble, patience=0.5)
    trouble.first(1, "409", "PUT")
    etag = objects.create("a", b"first")
    trouble.first(1, "409", "PUT")
    etag = objects.replace("a", b"second", etag)
    assert objects.read("a", 100) == (b"second", etag)
    trouble.wanted = lambda method, _path: "409" if method == "PUT" else ""
    # nobody can tell whose is there
    with pytest.raises(StorageError, match="409 ConditionalRequestConflict"):
        objects.create("b", b"x")
    with pytest.raises(StorageError, match="409 ConditionalRequestConflict"):
        objects.replace("a", b"x", etag)


def test_a_part_of_an_upload_that_fails_is_sent_again(
    s3_server: BucketServer, trouble: Trouble
) -> None:
    objects = _troubled(s3_server, trouble)
    data = os.urandom(_BIG)
    trouble.first(2, "503", "PUT")
    with tempfile.TemporaryFile() as file:
        file.write(data)
        file.flush()
        etag = objects.upload("a", file.fileno())
    puts = [path for method, path in trouble.seen if method == "PUT"]
    assert len(puts) == 3 + 2
    target = bytearray(_BIG)
    objects.read_range("a", 0, memoryview(target), etag=etag)
    assert target == data


def test_a_service_that_stays_away_is_told_within_the_patience(
    s3_server: BucketServer, trouble: Trouble
) -> None:
    objects = _troubled(s3_server, trouble, patience=0.5)
    trouble.wanted = lambda _method, _path: "503"
    with pytest.raises(StorageError, match="answers 503"):
        objects.read("a", 100)
    assert 2 < len(trouble.seen) < 40
    place = s3_server.place("none", port=1, patience=0.2)
    with pytest.raises(StorageError, match="can't be reached"):
        Objects(place).read("a", 100)


def test_a_bucket_that_isnt_there_is_no_missing_object(s3_server: BucketServer) -> None:
    objects = s3_server.objects("no-such-bucket")
    for act in (lambda: objects.read("a", 9), lambda: objects.listed("")):
        with pytest.raises(StorageError, match="NoSuchBucket"):
            act()


def test_neither_errors_nor_texts_name_credentials(s3_server: BucketServer) -> None:
    objects = Objects(_impatient(s3_server.objects("no-such-bucket")))
    texts = [repr(objects), repr(objects.place), str(objects.place)]
    with pytest.raises(SealcarError) as caught:
        objects.read("a", 9)
    assert caught.value.__cause__ is None
    assert caught.value.__suppress_context__
    texts.append(repr(caught.value) + str(caught.value))
    for text in texts:
        assert SECRET not in text
        assert ID not in text


def _impatient(objects: Objects) -> Place:
    return replace(objects.place, patience=0.2)


def test_an_endpoint_with_tls_is_one_that_an_authority_vouches_for(s3_server: BucketServer) -> None:
    authority = trustme.CA()
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    authority.issue_cert("localhost").configure_cert(context)
    server = Trouble(s3_server.port, context)
    place = replace(
        s3_server.place(s3_server.make(), patience=0.2),
        endpoint=f"https://localhost:{server.port}",
        allow_http=False,
    )
    try:
        known = Objects(replace(place, authorities=authority.cert_pem.bytes()))
        etag = known.create("a", b"x")
        assert known.read("a", 9) == (b"x", etag)
        assert len(server.seen) == 2
        server.seen.clear()
        with pytest.raises(StorageError, match="can't be reached"):
            Objects(place).read("a", 9)
        assert server.seen == []
    finally:
        server.close()


def test_an_endpoint_without_tls_is_refused_unless_that_is_allowed(s3_server: BucketServer) -> None:
    objects = Objects(replace(s3_server.place("any", patience=0.2), allow_http=False))
    with pytest.raises(StorageError, match="can't be reached"):
        objects.read("a", 9)
