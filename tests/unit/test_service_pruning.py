"""Older generations go, but for the newest, the pinned ones, and those in use."""

from __future__ import annotations

import errno
import os
import shutil
from contextlib import contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest
from support.asset_packages import AssetPackage
from support.rotating import turn
from support.services import ME, MODEL, Running, everything_for

from sealcar.errors import DamagedError, InvalidRequestError, NotFoundError, StorageError
from sealcar_server.access.audit.trail import Entry, Trail
from sealcar_server.access.policy import Grant, Policy, Right
from sealcar_server.service.assembly import Limits
from sealcar_server.service.pruned import Pruned
from sealcar_server.service.pruning import Pruning, Wanted
from sealcar_server.service.values import ScopeKey
from sealcar_server.store.local import LocalStore

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from sealcar_server.access.principal import Principal

SCOPE = ScopeKey("ocr", "1", "det", "onnx")
# what was opened before is no use of it any more
AT_ONCE = Limits(used_lately=0.0)


@pytest.fixture
def running(tmp_path: Path) -> Iterator[Running]:
    """Give a service with a package of five generations."""
    with Running(tmp_path, limits=AT_ONCE) as running:
        grow(running, "ocr")
        yield running


def grow(running: Running, name: str) -> None:
    running.import_(name)
    for variant in ("a", "b", "c", "d"):
        running.add_variant(ScopeKey(name, "1", "det", variant), variant.encode())


def prune(running: Running, name: str = "", keep: int = 0, *, dry_run: bool = False) -> list[int]:
    wanted = Wanted(name, "", keep, dry_run)
    return [number for _, _, number in running.service.pruning.prune(ME, wanted).generations]


def numbers(running: Running, name: str = "ocr") -> list[int]:
    return running.store.numbers(name, "1")


def test_the_newest_two_stay(running: Running) -> None:
    assert prune(running) == [3, 2, 1]
    assert numbers(running) == [5, 4]
    assert running.read(SCOPE) == MODEL
    assert running.packages.verify(ME, "ocr", "", 0, lambda *_: None).payloads == 5
    assert running.add_variant(ScopeKey("ocr", "1", "det", "e")).generation == 6


def test_as_many_stay_as_are_asked_for(running: Running) -> None:
    assert prune(running, "ocr", 4) == [1]
    assert prune(running, "ocr", 1) == [4, 3, 2]
    assert prune(running, "ocr", 1) == []


def test_no_more_generations_are_looked_at_than_it_takes_to_know_what_stays(
    running: Running, monkeypatch: pytest.MonkeyPatch
) -> None:
    real, looked = LocalStore.is_complete, []

    def looking(store: LocalStore, name: str, version: str, number: int) -> bool:
        looked.append(number)
        return real(store, name, version, number)

    monkeypatch.setattr(LocalStore, "is_complete", looking)
    assert prune(running, dry_run=True) == [3, 2, 1]
    assert looked == [5, 4, 3]


def test_a_dry_run_says_what_would_go_and_removes_nothing(running: Running) -> None:
    would = running.service.pruning.prune(ME, Wanted(dry_run=True))
    assert numbers(running) == [5, 4, 3, 2, 1]
    did = running.service.pruning.prune(ME, Wanted())
    assert would.generations == did.generations
    assert would.freed == did.freed


def test_files_that_a_generation_shares_free_nothing(running: Running) -> None:
    before = used(running.store_path)
    pruned = running.service.pruning.prune(ME, Wanted())
    # of three generations the manifests; every payload is one of the newest, too
    manifests = 3 * (running.generation(number=5) / "manifest.json").stat().st_blocks * 512
    assert pruned.freed == manifests
    assert before - used(running.store_path) == pruned.freed


def test_a_replaced_payload_frees_its_bytes_once(running: Running) -> None:
    for data in (b"x" * 100_000, b"y" * 100_000):
        running.add_variant(ScopeKey("ocr", "1", "det", "a"), data)
    before = used(running.store_path)
    freed = running.service.pruning.prune(ME, Wanted(keep=1)).freed
    assert freed > 100_000
    assert before - used(running.store_path) == freed


def used(path: Path) -> int:
    """Return the bytes of disk of all files below, each counted once."""
    found = [each.stat() for each in path.rglob("*") if each.is_file()]
    return sum({(one.st_dev, one.st_ino): one.st_blocks * 512 for one in found}.values())


def test_what_a_transaction_is_based_on_stays(running: Running) -> None:
    transaction = running.begin(ScopeKey("ocr", "1", "det", "new", 2))
    assert prune(running) == [3, 1]
    running.write(transaction, "model.onnx", b"late")
    assert running.commit(transaction).generation == 6
    assert prune(running) == [4, 2]


@pytest.mark.parametrize("use", ["open", "read"])
def test_what_somebody_opened_or_read_lately_stays(tmp_path: Path, use: str) -> None:
    with Running(tmp_path) as running:
        grow(running, "ocr")
        scope = ScopeKey("ocr", "1", "det", "onnx", 2)
        if use == "open":
            running.payloads.open(ME, scope)
        else:
            running.read(scope)
        assert prune(running) == [3, 1]
        assert running.read(scope) == MODEL


def test_a_transfer_under_way_keeps_its_generation_in_use(tmp_path: Path) -> None:
    with Running(tmp_path, limits=Limits(used_lately=0.2)) as running:
        grow(running, "ocr")
        scope = ScopeKey("ocr", "1", "det", "onnx", 2)
        with running.payloads.read(ME, scope, "model.onnx", running.scratch) as source:
            for _ in range(3):
                source.permit.check()
                assert 2 not in prune(running)


def test_a_transfer_on_what_is_pruned_all_the_same_ends(running: Running) -> None:
    scope = ScopeKey("ocr", "1", "det", "onnx", 1)
    with running.payloads.read(ME, scope, "model.onnx", running.scratch) as source:
        source.permit.check()
        assert 1 in prune(running)
        with pytest.raises(NotFoundError, match="removed meanwhile"):
            source.permit.check()


def test_what_is_opened_after_it_was_pruned_is_not_found(running: Running) -> None:
    opened = running.payloads.open(ME, ScopeKey("ocr", "1", "det", "onnx", 1))
    prune(running)
    with pytest.raises(NotFoundError, match=r"generation 1|removed meanwhile"):
        running.read(opened.scope)


def test_pinned_generations_stay(running: Running) -> None:
    class Pinned:
        def includes(self, name: str, version: str, number: int) -> bool:
            return (name, version, number) == ("ocr", "1", 1)

    service = running.service.pruning
    pinning = Pruning(
        everything_for(ME.uid),
        running.store,
        turns=service._turns,
        keeping=replace(service._keeping, pins=Pinned()),
        uses=service._uses,
        remembered=service._remembered,
    )
    assert [one[2] for one in pinning.prune(ME, Wanted()).generations] == [3, 2]


def test_many_generations_go_in_one_call(running: Running) -> None:
    for number in range(6, 150):
        shutil.copytree(running.generation(number=1), running.generation(number=number))
    assert len(prune(running)) == 149 - 2
    assert numbers(running) == [149, 148]
    assert not any((running.store_path / ".staging").iterdir())


def test_only_what_the_caller_may_manage_is_pruned(running: Running) -> None:
    grow(running, "asr")
    running.close()
    everything = frozenset(Right)
    policy = Policy(
        (
            Grant(ME.uid, None, None, ("ocr",), None, everything - {Right.MANAGE}),
            Grant(ME.uid, None, None, ("asr",), None, everything),
        )
    )
    with Running(running.root, policy=policy, limits=AT_ONCE) as strict:
        assert prune(strict) == [3, 2, 1]
        assert (numbers(strict), numbers(strict, "asr")) == ([5, 4, 3, 2, 1], [5, 4])


def test_what_crashes_left_goes(running: Running) -> None:
    left = running.store_path / ".staging" / "0123"
    (left / "det").mkdir(parents=True)
    (left / "det/model.onnx").write_bytes(b"x" * 50_000)
    would = running.service.pruning.prune(ME, Wanted("ocr", keep=9, dry_run=True))
    assert left.exists()
    did = running.service.pruning.prune(ME, Wanted("ocr", keep=9))
    assert not left.exists()
    assert would.freed == did.freed >= 50_000


def test_whoever_may_manage_nothing_has_nothing_removed(running: Running) -> None:
    left = running.store_path / ".staging" / "0123"
    running.close()
    others = frozenset(Right) - {Right.MANAGE}
    policy = Policy((Grant(ME.uid, None, None, ("*",), None, others),))
    with Running(running.root, policy=policy, limits=AT_ONCE) as strict:
        left.mkdir()
        assert strict.service.pruning.prune(ME, Wanted()).files == {}
        assert left.exists()
        assert numbers(strict) == [5, 4, 3, 2, 1]


def test_what_others_are_writing_stays(running: Running) -> None:
    transaction = running.begin(ScopeKey("ocr", "1", "det", "new"))
    running.write(transaction, "model.onnx", b"late")
    prune(running)
    assert running.commit(transaction).generation == 6


def test_entries_of_the_asset_index_that_lead_nowhere_go(running: Running) -> None:
    AssetPackage.with_weights().import_into(running, "assets-1", "1")
    AssetPackage.with_weights().import_into(running, "assets-2", "1")
    index = running.store_path / "assets"
    entries = sorted(each.name for each in index.iterdir())
    assert entries
    (index / "junk").write_bytes(b"{}")
    prune(running)
    assert sorted(each.name for each in index.iterdir()) == entries
    running.service.removing.remove(ME, "assets-1", "1")
    prune(running, dry_run=True)
    assert sorted(each.name for each in index.iterdir()) == entries
    prune(running)
    assert not any(index.iterdir())
    assert running.packages.verify(ME, "assets-2", "", 0, lambda *_: None).payloads > 0


def test_one_spoiled_package_keeps_no_other_from_being_pruned(running: Running) -> None:
    grow(running, "asr")
    generations = running.generation("asr").parent
    generations.rename(running.root / "elsewhere")
    generations.symlink_to(running.root / "elsewhere")
    assert prune(running) == [3, 2, 1]
    with pytest.raises(DamagedError):
        running.service.pruning.prune(ME, Wanted("asr", "1"))
    assert len(list((running.root / "elsewhere").iterdir())) == 5


def test_a_newest_generation_without_manifest_is_not_taken_for_one(running: Running) -> None:
    (running.store_path / "ocr/1/g/6").mkdir()
    assert prune(running) == [3, 2, 1]
    assert numbers(running) == [6, 5, 4]


def test_what_names_no_package_is_refused(running: Running) -> None:
    for wanted, kind in (
        (Wanted("xyz"), NotFoundError),
        (Wanted("ocr", "9"), NotFoundError),
        (Wanted("", "1"), InvalidRequestError),
    ):
        with pytest.raises(kind):
            running.service.pruning.prune(ME, wanted)


def test_a_rewrap_leaves_what_is_in_use(tmp_path: Path) -> None:
    with Running(tmp_path) as running:
        running.import_()
        running.payloads.open(ME, SCOPE)
        for _ in range(3):
            turn(running)
        assert numbers(running) == [4, 3, 1]
        assert running.read(replace(SCOPE, generation=1)) == MODEL


class Noting(Trail):
    """Keeps what was accounted for."""

    def __init__(self) -> None:
        super().__init__()
        self.entries: list[Entry] = []

    @contextmanager
    def decision(self, principal: Principal, right: Right, **place: str | int) -> Iterator[Entry]:
        with super().decision(principal, right, **place) as entry:
            self.entries.append(entry)
            yield entry


@pytest.fixture
def trail() -> Noting:
    return Noting()


@pytest.fixture
def accounted(running: Running, trail: Noting) -> Pruning:
    service = running.service.pruning
    return Pruning(
        everything_for(ME.uid),
        running.store,
        turns=service._turns,
        keeping=service._keeping,
        uses=service._uses,
        remembered=service._remembered,
        trail=trail,
    )


def breaks_at(monkeypatch: pytest.MonkeyPatch, call: str, inode: int) -> None:
    """Let the disk fail when one file's name, or one directory, is to be removed."""
    real = getattr(os, call)

    def broken(path: str, *, dir_fd: int) -> None:
        if os.stat(path, dir_fd=dir_fd, follow_symlinks=False).st_ino == inode:
            raise OSError(errno.EIO, os.strerror(errno.EIO))
        real(path, dir_fd=dir_fd)

    monkeypatch.setattr(os, call, broken)


def test_what_went_before_a_failure_is_told_and_accounted_for(
    running: Running, accounted: Pruning, trail: Noting, monkeypatch: pytest.MonkeyPatch
) -> None:
    grow(running, "asr")
    stuck = (running.generation(number=2) / "manifest.json").stat().st_ino
    breaks_at(monkeypatch, "unlink", stuck)
    with pytest.raises(StorageError, match="Input/output error") as caught:
        accounted.prune(ME, Wanted())
    # of the failing one's batch the others went all the same; it itself has files left
    assert "; 5 generations of asr, ocr went before that" in caught.value.message
    assert (caught.value.place.phase, caught.value.place.package) == ("prune", "ocr")
    assert trail.entries[0].what["removed"] == 5
    assert (numbers(running), numbers(running, "asr")) == ([5, 4], [5, 4])
    monkeypatch.undo()
    assert accounted.prune(ME, Wanted()).generations == []
    assert trail.entries[1].what["removed"] == 0
    assert not any((running.store_path / ".staging").iterdir())


def test_a_failure_before_anything_went_tells_of_nothing(
    running: Running, accounted: Pruning, trail: Noting, monkeypatch: pytest.MonkeyPatch
) -> None:
    inodes = [(running.generation(number=n) / "manifest.json").stat().st_ino for n in (2, 3)]
    assert accounted.prune(ME, Wanted(keep=4)).generations == [("ocr", "1", 1)]
    for inode in inodes:
        breaks_at(monkeypatch, "unlink", inode)
    with pytest.raises(StorageError, match="Input/output error") as caught:
        accounted.prune(ME, Wanted())
    assert "before that" not in caught.value.message
    assert [entry.what["removed"] for entry in trail.entries] == [1, 0]


def test_a_failure_after_the_last_package_tells_what_went_too(
    running: Running, accounted: Pruning, trail: Noting, monkeypatch: pytest.MonkeyPatch
) -> None:
    index = running.store_path / "assets"
    index.mkdir(exist_ok=True)
    AssetPackage.with_weights().import_into(running, "assets-1", "1")
    (index / "junk").write_bytes(b"{}")
    breaks_at(monkeypatch, "unlink", (index / "junk").stat().st_ino)
    with pytest.raises(StorageError, match="; 3 generations of ocr went before that"):
        accounted.prune(ME, Wanted())
    assert trail.entries[0].what["removed"] == 3


def test_of_many_packages_only_some_are_named() -> None:
    done = Pruned()
    for name in "edcba":
        done.add((name, "1", 1), [])
    assert done.told == "5 generations of a, b, c and 2 more went"
