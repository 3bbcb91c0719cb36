"""Rewrapping: only the wrapped key changes, whole or not at all, however often it is done."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from support.rotating import leave_nothing
from support.services import KEK, MODEL, Running

from sealcar.errors import (
    ConflictError,
    NotFoundError,
    StorageError,
    TruncatedError,
    UnavailableError,
)
from sealcar_server.sealing import record
from sealcar_server.service.rewrapping import Rewrapped, Wanted
from sealcar_server.service.values import ScopeKey

if TYPE_CHECKING:
    from collections.abc import Iterator

    from sealcar_server.sealing.values import SealRecord

SCOPE = ScopeKey("ocr", "1", "det", "onnx")
PAYLOAD = "det/onnx/model.onnx"


def nothing(*_: object) -> None:
    pass


@pytest.fixture
def running(tmp_path: Path) -> Iterator[Running]:
    with Running(tmp_path) as made:
        made.import_()
        yield made


def rewrap(running: Running, wanted: Wanted | None = None) -> Rewrapped:
    return running.service.keys.rewrap(wanted or Wanted(), nothing)


def rotate(running: Running) -> str:
    return running.service.keys.rotate()[1]


def sealed(generation: Path) -> SealRecord:
    manifest = json.loads((generation / "manifest.json").read_bytes())
    return record.parse(record.open_envelope(manifest)[0])


def test_a_new_version_wraps_new_packages_and_leaves_the_others(running: Running) -> None:
    assert running.service.keys.rotate() == (KEK, "2")
    running.import_("det")
    assert sealed(running.generation("ocr")).kek_version == "1"
    assert sealed(running.generation("det")).kek_version == "2"
    assert running.read(SCOPE) == MODEL


def test_a_moved_package_differs_in_its_wrapped_key_only(running: Running) -> None:
    before = sealed(running.generation())
    rotate(running)
    done = rewrap(running)
    assert (done.packages, done.skipped, done.failed, done.store_key) == (1, 0, 0, True)
    after = sealed(running.generation(number=2))
    assert (after.generation, after.kek_version) == (2, "2")
    assert after.wrapped != before.wrapped
    assert after.package_id == before.package_id
    assert (after.package, after.components, after.variants) == (
        before.package,
        before.components,
        before.variants,
    )
    assert running.read(SCOPE) == MODEL


def test_payload_files_are_the_same_files(running: Running) -> None:
    rotate(running)
    rewrap(running)
    first, second = running.generation() / PAYLOAD, running.generation(number=2) / PAYLOAD
    assert first.stat().st_ino == second.stat().st_ino


def test_what_is_moved_is_skipped_the_next_time(running: Running) -> None:
    rotate(running)
    rewrap(running)
    again = rewrap(running)
    assert (again.packages, again.skipped, again.store_key) == (0, 1, False)
    assert not running.generation(number=3).exists()


def test_only_what_is_asked_for_is_moved(running: Running) -> None:
    running.import_("ocr", "2")
    running.import_("det")
    rotate(running)
    assert rewrap(running, Wanted(packages=(("ocr", "2"),))).packages == 1
    assert rewrap(running, Wanted(from_version="7")).packages == 0
    assert rewrap(running, Wanted(packages=(("ocr", ""),))).packages == 1
    rest = rewrap(running, Wanted(from_version="1"))
    assert (rest.packages, rest.skipped, rest.store_key) == (1, 2, True)


@pytest.mark.parametrize("package", [("none", ""), ("ocr", "9"), ("none", "1")])
def test_a_package_that_isnt_there_is_said_so(running: Running, package: tuple[str, str]) -> None:
    with pytest.raises(NotFoundError):
        rewrap(running, Wanted(packages=(package,)))


def test_a_daemon_started_later_reads_what_was_moved(running: Running) -> None:
    rotate(running)
    rewrap(running)
    root = running.root
    running.close()
    with Running(root) as again:
        assert again.store.identity.kek_version == "2"
        assert again.read(SCOPE) == MODEL
        # the pointer to the current version is under the store's key
        assert again.read(ScopeKey("ocr", "", "det", "onnx")) == MODEL


def test_a_variant_can_be_added_to_a_moved_package(running: Running) -> None:
    rotate(running)
    rewrap(running)
    assert running.add_variant(ScopeKey("ocr", "1", "det", "qnn")).generation == 3
    assert sealed(running.generation(number=3)).kek_version == "2"


def test_a_transaction_that_began_before_is_published_after(running: Running) -> None:
    transaction = running.begin(ScopeKey("ocr", "1", "det", "qnn"))
    running.write(transaction, "model.onnx", b"compiled")
    rotate(running)
    rewrap(running)
    assert running.commit(transaction).generation == 3
    assert running.read(SCOPE) == MODEL


def test_a_damaged_package_keeps_no_other_from_being_moved(running: Running) -> None:
    running.import_("det")
    (running.generation("det") / PAYLOAD).unlink()
    rotate(running)
    done = rewrap(running)
    assert (done.packages, done.failed) == (1, 1)
    (failure,) = done.failures
    assert isinstance(failure, TruncatedError)
    assert (failure.place.package, failure.place.payload) == ("det", "model.onnx")
    assert not running.generation("det", number=2).exists()


def test_without_its_file_a_key_gets_no_version_and_goes_on_wrapping(running: Running) -> None:
    kek = running.root / "kek"
    kek.rename(running.root / "away")
    with pytest.raises(StorageError):
        running.service.keys.rotate()
    (running.root / "away").rename(kek)
    running.import_("det")
    assert sealed(running.generation("det")).kek_version == "1"


def test_whoever_goes_away_ends_the_work_between_two_packages(running: Running) -> None:
    for name in ("a", "b", "c"):
        running.import_(name)
    rotate(running)

    def leave(done: int, total: int, _package: str) -> None:
        assert total == 4
        if done == 2:
            raise UnavailableError("nobody waits")

    with pytest.raises(UnavailableError):
        running.service.keys.rewrap(Wanted(), leave)
    rest = rewrap(running)
    assert (rest.packages, rest.skipped) == (2, 2)


def test_two_runs_at_once_are_one_too_many(running: Running) -> None:
    rotate(running)

    def again(*_: object) -> None:
        with pytest.raises(ConflictError):
            rewrap(running)

    assert running.service.keys.rewrap(Wanted(), again).packages == 1


def test_the_generation_before_stays_for_those_who_read_it(running: Running) -> None:
    for _ in range(3):
        rotate(running)
        rewrap(running)
    assert running.store.numbers("ocr", "1") == [4, 3]
    assert running.read(ScopeKey("ocr", "1", "det", "onnx", 3)) == MODEL
    with pytest.raises(NotFoundError):
        running.read(ScopeKey("ocr", "1", "det", "onnx", 2))


def test_a_generation_of_other_content_is_never_removed(running: Running) -> None:
    running.add_variant(ScopeKey("ocr", "1", "det", "qnn"))
    for _ in range(4):
        rotate(running)
        rewrap(running)
    assert running.store.numbers("ocr", "1") == [6, 5, 1]


def test_the_report_names_old_generations_and_the_stores_own_key(running: Running) -> None:
    rotate(running)
    rewrap(running)
    (running.generation(number=1) / "manifest.json").write_bytes(b"{")
    store, old, new = running.service.keys.report()
    assert (store.name, store.kek_version, store.newest) == ("", "2", True)
    assert (old.generation, old.newest, old.kek_version) == (1, False, "")
    assert old.problem
    assert (new.name, new.version, new.generation, new.newest, new.kek_version) == (
        "ocr",
        "1",
        2,
        True,
        "2",
    )


def test_rotations_leave_nothing_but_a_line_of_the_key_file_each(running: Running) -> None:
    leave_nothing(running, 20)


def test_killed_at_any_step_it_can_be_done_again(tmp_path: Path) -> None:
    template = tmp_path / "template"
    with Running(template) as running:
        running.import_()
        rotate(running)
        rewrap(running)
        rotate(running)
    made = subprocess.run(
        [sys.executable, "-m", "support.crashing", "rewrap", str(template), str(tmp_path / "k")],
        cwd=Path(__file__).parents[1],
        capture_output=True,
        text=True,
        check=True,
    )
    steps = int(made.stdout.split()[-1])
    assert steps > 20
    for after in range(steps):
        root = tmp_path / "k" / str(after)
        with Running(root) as running:
            assert running.read(SCOPE) == MODEL
            done = rewrap(running)
            assert (done.packages + done.skipped, done.failed) == (1, 0)
            assert running.store.identity.kek_version == "3"
            assert running.store.numbers("ocr", "1") == [3, 2]
            assert running.read(SCOPE) == MODEL
            assert not list((root / "store" / ".staging").iterdir())
        shutil.rmtree(root)
