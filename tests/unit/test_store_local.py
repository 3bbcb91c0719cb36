"""The store keeps generations whole, finds the newest, and follows no link."""

from __future__ import annotations

import errno
import fcntl
import os
from typing import TYPE_CHECKING

import pytest
from support.exhaustion import no_descriptor_left

from sealcar.errors import (
    AlreadyExistsError,
    ConflictError,
    ExhaustedError,
    InvalidNameError,
    NotAuthenticError,
    NotFoundError,
    UnknownFormatError,
    WrongStateError,
)
from sealcar_server.store import copying
from sealcar_server.store.directory import Directory
from sealcar_server.store.identity import StoreIdentity
from sealcar_server.store.local import LocalStore

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from sealcar_server.store.local_generation import LocalGeneration

IDENTITY = StoreIdentity(bytes(16), "main", "1", b"wrapped")
HOSTILE = ["..", ".", "", "a/../b", "/etc/passwd", "a\0b", "a\\b", ".hidden", "x" * 201]


@pytest.fixture
def store(tmp_path: Path) -> Iterator[LocalStore]:
    with LocalStore.create(tmp_path / "store", IDENTITY) as store:
        yield store


def fill(fd: int, data: bytes) -> None:
    with os.fdopen(fd, "wb") as file:
        file.write(data)


def publish(store: LocalStore, number: int, data: bytes = b"sealed") -> LocalGeneration:
    with store.stage("ocr", "1") as staging:
        fill(staging.create_payload("det", "onnx", "model.onnx"), data)
        return staging.publish(b"{}", number)


def content(generation: LocalGeneration, name: str = "model.onnx") -> bytes:
    file = generation.open_payload("det", "onnx", name)
    data = bytearray(file.size())
    file.read(memoryview(data), 0)
    file.close()
    return bytes(data)


def test_a_published_generation_is_found_and_read(store: LocalStore) -> None:
    publish(store, 1)
    publish(store, 2, b"newer")
    assert (store.names(), store.versions("ocr"), store.newest("ocr", "1")) == (["ocr"], ["1"], 2)
    assert content(store.generation("ocr", "1", 1)) == b"sealed"
    assert content(store.generation("ocr", "1", 2)) == b"newer"
    assert store.generation("ocr", "1", 2).manifest() == b"{}"


def test_nothing_is_seen_before_publication_and_nothing_is_left_after_a_discard(
    store: LocalStore, tmp_path: Path
) -> None:
    with store.stage("ocr", "1") as staging:
        fill(staging.create_payload("det", "onnx", "a/b.bin"), b"x")
        assert store.names() == []
    assert list((tmp_path / "store" / ".staging").iterdir()) == []
    assert store.newest("ocr", "1") == 0


def test_a_taken_number_is_a_conflict_and_the_staging_can_take_the_next(store: LocalStore) -> None:
    publish(store, 1)
    with store.stage("ocr", "1") as staging:
        fill(staging.create_payload("det", "onnx", "model.onnx"), b"late")
        with pytest.raises(ConflictError):
            staging.publish(b"{}", 1)
        assert content(staging.publish(b"{}", 2)) == b"late"
        with pytest.raises(WrongStateError):
            staging.create_payload("det", "onnx", "again")
    assert content(store.generation("ocr", "1", 1)) == b"sealed"


def test_unchanged_payloads_are_hard_links_and_can_be_given_up_again(
    store: LocalStore, tmp_path: Path
) -> None:
    first = publish(store, 1)
    with store.stage("ocr", "1") as staging:
        assert staging.link_payload(first, "det", "onnx", "model.onnx") == "link"
        staging.unlink_payloads()
        assert staging.link_payload(first, "det", "onnx", "model.onnx") == "link"
        staging.publish(b"{}", 2)
    files = [tmp_path / f"store/ocr/1/g/{n}/det/onnx/model.onnx" for n in (1, 2)]
    assert files[0].samefile(files[1])


URI = f"sha256:{'a' * 64}"


def test_an_asset_is_named_when_it_is_complete_and_carried_on(
    store: LocalStore, tmp_path: Path
) -> None:
    with store.stage("ocr", "1") as staging:
        fill(staging.create_asset("unnamed", "deep/x"), b"sealed")
        with staging.enter_asset("unnamed") as folder:
            assert folder.names() == ["deep"]
        staging.name_asset("unnamed", URI)
        first = staging.publish(b"{}", 1)
    with store.stage("ocr", "1") as staging:
        for _ in range(2):
            assert staging.link_asset(first, URI, "deep/x") == "link"
            staging.unlink_payloads()
        staging.publish(b"{}", 2)
    folders = [tmp_path / f"store/ocr/1/g/{n}/shared_assets" for n in (1, 2)]
    assert [path.name for path in folders[0].iterdir()] == [URI.replace(":", "-")]
    assert not folders[1].exists(), "what was given up leaves no directory behind"
    first.open_asset(URI, "deep/x").close()


def test_an_asset_that_is_removed_again_leaves_nothing(store: LocalStore, tmp_path: Path) -> None:
    with store.stage("ocr", "1") as staging:
        fill(staging.create_asset("unnamed", "x"), b"sealed")
        staging.remove_asset("unnamed")
        staging.remove_asset("unnamed")
        fill(staging.create_asset("unnamed", "x"), b"again")
        staging.name_asset("unnamed", URI)
        staging.publish(b"{}", 1)
    (folder,) = (tmp_path / "store/ocr/1/g/1/shared_assets").iterdir()
    assert (folder / "x").read_bytes() == b"again"


@pytest.mark.parametrize("uri", ["sha256:aa", f"{URI}/..", "../../x", f"sha256-{'a' * 64}", ""])
def test_what_is_no_uri_is_no_place_of_an_asset(store: LocalStore, uri: str) -> None:
    first = publish(store, 1)
    with store.stage("ocr", "1") as staging:
        fill(staging.create_asset("unnamed", "x"), b"sealed")
        with pytest.raises(InvalidNameError, match="no URI of a shared asset"):
            staging.name_asset("unnamed", uri)
        with pytest.raises(InvalidNameError, match="no URI of a shared asset"):
            staging.link_asset(first, uri, "x")
    with pytest.raises(InvalidNameError, match="no URI of a shared asset"):
        first.open_asset(uri, "x")


def test_a_file_system_without_links_gets_a_copy(tmp_path: Path) -> None:
    for name in ("from", "to"):
        (tmp_path / name).mkdir()
    (tmp_path / "from" / "x").write_bytes(b"data" * 100_000)
    with Directory.open(tmp_path / "from") as source, Directory.open(tmp_path / "to") as target:
        fd = source.open_file("x")
        try:
            assert copying._duplicate(fd, target, "x") in {"reflink", "copy"}
        finally:
            os.close(fd)
    assert (tmp_path / "to" / "x").read_bytes() == b"data" * 100_000


@pytest.mark.parametrize("name", HOSTILE)
def test_a_hostile_name_is_refused_on_every_way_in(store: LocalStore, name: str) -> None:
    generation = publish(store, 1)
    with pytest.raises(InvalidNameError):
        store.stage(name, "1")
    with pytest.raises(InvalidNameError):
        store.stage("ocr", name)
    with pytest.raises(InvalidNameError):
        store.newest(name, "1")
    with pytest.raises(InvalidNameError):
        store.read_current(name)
    with store.stage("ocr", "1") as staging:
        for place in [(name, "onnx", "m"), ("det", name, "m"), ("det", "onnx", name)]:
            with pytest.raises(InvalidNameError):
                staging.create_payload(*place)
            with pytest.raises(InvalidNameError):
                staging.link_payload(generation, *place)
            with pytest.raises(InvalidNameError):
                generation.open_payload(*place)


@pytest.mark.parametrize("name", ["manifest.json", "Component.JSON", "shared_assets"])
def test_a_name_of_the_format_is_refused(store: LocalStore, name: str) -> None:
    with store.stage("ocr", "1") as staging, pytest.raises(InvalidNameError, match="of the format"):
        staging.create_payload(name, "onnx", "m")


def test_a_name_of_the_store_is_refused(store: LocalStore) -> None:
    with pytest.raises(InvalidNameError):
        store.stage("store.json", "1")
    with pytest.raises(InvalidNameError):
        store.stage("ocr", "current")


def test_a_link_in_place_of_a_payload_is_refused(store: LocalStore, tmp_path: Path) -> None:
    generation = publish(store, 1)
    payload = tmp_path / "store/ocr/1/g/1/det/onnx/model.onnx"
    payload.rename(tmp_path / "elsewhere")
    payload.symlink_to(tmp_path / "elsewhere")
    with pytest.raises(NotAuthenticError, match="link"):
        generation.open_payload("det", "onnx", "model.onnx")


@pytest.mark.parametrize("step", ["ocr", "ocr/1", "ocr/1/g", "ocr/1/g/1", "ocr/1/g/1/det"])
def test_a_link_in_place_of_a_directory_is_refused(
    store: LocalStore, tmp_path: Path, step: str
) -> None:
    generation = publish(store, 1)
    directory = tmp_path / "store" / step
    directory.rename(tmp_path / "elsewhere")
    directory.symlink_to(tmp_path / "elsewhere")
    with pytest.raises(NotAuthenticError):
        generation.open_payload("det", "onnx", "model.onnx")


def test_a_fifo_in_place_of_a_payload_is_refused_without_waiting(
    store: LocalStore, tmp_path: Path
) -> None:
    generation = publish(store, 1)
    payload = tmp_path / "store/ocr/1/g/1/det/onnx/model.onnx"
    payload.unlink()
    os.mkfifo(payload)
    with pytest.raises(NotAuthenticError, match="no regular file"):
        generation.open_payload("det", "onnx", "model.onnx")


def test_descriptors_are_closed_on_exec(store: LocalStore) -> None:
    steps = ("ocr", "1", "g", "1", "det", "onnx", "model.onnx")
    fd = publish(store, 1).root.open_below(*steps)
    try:
        assert not os.get_inheritable(fd)
        assert fcntl.fcntl(fd, fcntl.F_GETFL) & os.O_ACCMODE == os.O_RDONLY
    finally:
        os.close(fd)


def test_a_second_payload_of_one_name_is_refused(store: LocalStore) -> None:
    with store.stage("ocr", "1") as staging:
        os.close(staging.create_payload("det", "onnx", "m"))
        with pytest.raises(AlreadyExistsError):
            staging.create_payload("det", "onnx", "m")
        staging.remove_payload("det", "onnx", "m")
        os.close(staging.create_payload("det", "onnx", "m"))


def test_the_pointer_is_replaced_whole(store: LocalStore, tmp_path: Path) -> None:
    publish(store, 1)
    assert store.read_current("ocr") is None
    for data in (b"one", b"two"):
        with store.stage_current("ocr", data) as pointer:
            pointer.publish()
        assert store.read_current("ocr") == data
    with store.stage_current("ocr", b"never"):
        pass
    assert store.read_current("ocr") == b"two"
    assert not any((tmp_path / "store/.staging").iterdir())


def test_a_directory_without_manifest_is_no_generation(store: LocalStore, tmp_path: Path) -> None:
    publish(store, 1)
    (tmp_path / "store/ocr/1/g/7").mkdir()
    (tmp_path / "store/ocr/1/g/08").mkdir()
    assert store.newest("ocr", "1") == 1
    with pytest.raises(NotFoundError):
        store.generation("ocr", "1", 7)


def test_opening_removes_what_dead_writers_left_and_spares_living_ones(
    store: LocalStore, tmp_path: Path
) -> None:
    dead = tmp_path / "store/.staging/dead"
    (dead / "det/onnx").mkdir(parents=True)
    (dead / "det/onnx/model.onnx").write_bytes(b"x")
    with store.stage("ocr", "1") as living:
        fill(living.create_payload("det", "onnx", "model.onnx"), b"x")
        LocalStore.open(tmp_path / "store").close()
        assert not dead.exists()
        assert content(living.publish(b"{}", 1)) == b"x"


def test_nobody_cleans_while_another_process_makes_a_staging(
    store: LocalStore, tmp_path: Path
) -> None:
    left = tmp_path / "store/.staging/left"
    left.mkdir()
    with (tmp_path / "store/.lock").open("r+") as lock:
        fcntl.flock(lock, fcntl.LOCK_SH)
        LocalStore.open(tmp_path / "store").close()
        assert left.exists()
    assert store.names() == []


def test_a_store_is_founded_once(store: LocalStore, tmp_path: Path) -> None:
    assert store.identity == IDENTITY
    with pytest.raises(AlreadyExistsError):
        LocalStore.create(tmp_path / "store", IDENTITY)


def test_a_directory_that_is_no_store_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UnknownFormatError, match="sealcar init"):
        LocalStore.open(tmp_path)
    with pytest.raises(NotFoundError):
        LocalStore.open(tmp_path / "nowhere")


@pytest.mark.parametrize(
    ("data", "kind"),
    [
        (b"", NotAuthenticError),
        (b"[]", NotAuthenticError),
        (b"[" * 60_000, NotAuthenticError),
        (b"\xff", NotAuthenticError),
        (b'{"format": "1", "format": "1"}', NotAuthenticError),
        (b'{"format": "2"}', UnknownFormatError),
        (b'{"format": "1"}', NotAuthenticError),
        (IDENTITY.serialise().replace(b"AAAA", b"A"), NotAuthenticError),
        (IDENTITY.serialise().replace(b'"kek_a', b'"new": "1", "kek_a'), UnknownFormatError),
        (IDENTITY.serialise().replace(b'"main"', b"5"), NotAuthenticError),
    ],
)
def test_a_damaged_identity_is_refused(tmp_path: Path, data: bytes, kind: type[Exception]) -> None:
    (tmp_path / "store.json").write_bytes(data)
    with pytest.raises(kind):
        LocalStore.open(tmp_path)


def test_a_disk_error_is_typed(store: LocalStore, monkeypatch: pytest.MonkeyPatch) -> None:
    from sealcar.errors import StorageError  # noqa: PLC0415

    def broken(_fd: int) -> None:
        raise OSError(errno.EIO, os.strerror(errno.EIO))

    with store.stage("ocr", "1") as staging:
        fill(staging.create_payload("det", "onnx", "model.onnx"), b"x")
        monkeypatch.setattr(os, "fsync", broken)
        with pytest.raises(StorageError, match="Input/output error"):
            staging.publish(b"{}", 1)
        monkeypatch.undo()
    assert store.newest("ocr", "1") == 0


def test_a_second_founding_leaves_the_lock_of_the_first_alone(
    store: LocalStore, tmp_path: Path
) -> None:
    lock = tmp_path / "store/.lock"
    with lock.open() as held:
        with pytest.raises(AlreadyExistsError):
            LocalStore.create(tmp_path / "store", IDENTITY)
        assert os.path.samestat(lock.stat(), os.fstat(held.fileno()))
    assert store.names() == []


def test_a_process_without_descriptors_is_told_so(store: LocalStore) -> None:
    publish(store, 1)
    with no_descriptor_left(), pytest.raises(ExhaustedError, match="too many files open"):
        store.newest("ocr", "1")
    assert store.newest("ocr", "1") == 1


def test_a_store_that_is_only_read_gets_no_index_of_assets(
    store: LocalStore, tmp_path: Path
) -> None:
    root = tmp_path / "store"
    before = sorted(each.name for each in root.iterdir())
    with LocalStore.open(root, read_only=True) as strict:
        with pytest.raises(WrongStateError, match="read_only"):
            strict.write_asset_entry("0" * 64, b"{}")
        with pytest.raises(WrongStateError, match="read_only"):
            strict.remove_asset_entry("0" * 64)
    assert sorted(each.name for each in root.iterdir()) == before
    store.write_asset_entry("0" * 64, b"{}")
    assert store.asset_entries() == ["0" * 64]
