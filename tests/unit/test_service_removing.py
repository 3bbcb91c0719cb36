"""Versions and older generations go whole, what uses them ends, and nobody puts them back."""

from __future__ import annotations

import json
import shutil
from typing import TYPE_CHECKING

import pytest
from support.services import ME, MODEL, Running
from support.tampering import edit_record

from sealcar.errors import (
    AlreadyExistsError,
    ConflictError,
    ExhaustedError,
    InvalidNameError,
    InvalidRequestError,
    NotAuthenticError,
    NotFoundError,
    RolledBackError,
    StorageError,
    WrongStateError,
)
from sealcar_server.service import state_file
from sealcar_server.service.values import ImportPlan, ScopeKey

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from sealcar_server.access.permit import Permit
    from sealcar_server.service.holding import Holder

SCOPE = ScopeKey("ocr", "1", "det", "onnx")
QNN = ScopeKey("ocr", "1", "det", "qnn")


@pytest.fixture
def running(tmp_path: Path) -> Iterator[Running]:
    """Give a service whose package has version 1 in two generations, and 2, the current one."""
    with Running(tmp_path) as running:
        running.import_("ocr", "1")
        running.add_variant(QNN)
        running.import_("ocr", "2", payloads={("det", "onnx", "model.onnx"): b"second"})
        yield running


def remove(running: Running, version: str = "1", generation: int = 0) -> tuple[int, ...]:
    return running.service.removing.remove(ME, "ocr", version, generation)


def versions(running: Running) -> list[str]:
    return [one.version for one in running.listing.list(ME, "ocr")]


def put_back(running: Running) -> Path:
    copy = running.root / "copy"
    shutil.copytree(running.store_path / "ocr/1", copy)
    return copy


def test_a_version_goes_with_all_its_generations(running: Running) -> None:
    assert remove(running) == (2, 1)
    assert versions(running) == ["2"]
    assert not (running.store_path / "ocr/1").exists()
    assert not any((running.store_path / ".staging").iterdir())
    with pytest.raises(NotFoundError, match="no package 'ocr'"):
        running.payloads.open(ME, SCOPE)
    assert running.read(ScopeKey("ocr", "", "det", "onnx")) == b"second"


def test_the_current_version_stays_as_long_as_there_are_others(running: Running) -> None:
    with pytest.raises(WrongStateError, match=r"sealcar use ocr@1"):
        remove(running, "2")
    remove(running)
    assert remove(running, "2") == (1,)
    assert versions(running) == []
    with pytest.raises(NotFoundError):
        running.payloads.open(ME, ScopeKey("ocr", "", "det", "onnx"))


def test_an_older_generation_goes_alone_and_the_newest_never(running: Running) -> None:
    assert remove(running, generation=1) == (1,)
    assert running.looking.get(ME, "ocr", "1").generations == (2,)
    assert running.read(SCOPE) == MODEL
    with pytest.raises(WrongStateError, match="newest"):
        remove(running, generation=2)
    with pytest.raises(NotFoundError, match="generation 1"):
        remove(running, generation=1)


def test_its_numbers_go_on_when_it_is_imported_again(running: Running) -> None:
    before = running.looking.get(ME, "ocr", "1").package_id
    remove(running)
    again = running.import_("ocr", "1")
    assert (again.generation, again.package_id == before) == (3, False)
    assert running.read(SCOPE) == MODEL
    assert running.add_variant(QNN).generation == 4
    remove(running, "2" if running.looking.get(ME, "ocr").summary.version == "1" else "1")


def test_its_numbers_go_on_though_the_daemon_remembers_nothing_of_them(running: Running) -> None:
    running.close()
    shutil.rmtree(running.root / "state")
    with Running(running.root) as again:
        assert remove(again) == (2, 1)
        assert again.import_("ocr", "1").generation == 3


class Door:
    """Where one transfer goes on."""

    def __init__(self, permit: Permit) -> None:
        self._permit = permit
        self.ended: list[str] = []

    def check_permits(self) -> None:
        with pytest.raises(NotFoundError) as caught:
            self._permit.check()
        self.ended.append(caught.value.message)

    def end_transfers(self) -> None: ...

    def holders(self) -> tuple[Holder, ...]:
        return ()

    def report(self, *, locked: bool) -> None: ...


def test_a_transfer_that_nobody_waits_for_ends_at_once(running: Running) -> None:
    with running.payloads.read(ME, SCOPE, "model.onnx", running.scratch) as source:
        door = Door(source.permit)
        running.service.removing.serve_behind(door)
        remove(running)
    assert len(door.ended) == 1


def test_what_a_restarted_daemon_remembers_is_the_same(running: Running) -> None:
    remove(running)
    running.close()
    with Running(running.root) as again:
        assert versions(again) == ["2"]
        assert again.import_("ocr", "1").generation == 3


def test_a_version_that_is_put_back_from_a_copy_is_refused(running: Running) -> None:
    copy = put_back(running)
    remove(running)
    shutil.copytree(copy, running.store_path / "ocr/1")
    running.close()
    with Running(running.root) as again:
        for scope in (SCOPE, ScopeKey("ocr", "1", "det", "onnx", 1)):
            with pytest.raises(RolledBackError, match="removed, and put back"):
                again.payloads.open(ME, scope)
        # it can be removed once more
        assert remove(again) == (2, 1)
        assert again.import_("ocr", "1").generation == 3


def test_older_generations_put_beside_a_newer_import_are_refused(running: Running) -> None:
    copy = put_back(running)
    remove(running)
    running.import_("ocr", "1")
    shutil.copytree(copy / "g/1", running.store_path / "ocr/1/g/1")
    with pytest.raises(RolledBackError, match="generation 1 was removed"):
        running.payloads.open(ME, ScopeKey("ocr", "1", "det", "onnx", 1))
    assert running.read(SCOPE) == MODEL


def test_transactions_on_it_end_and_others_go_on(running: Running) -> None:
    on_one = running.begin(ScopeKey("ocr", "1", "det", "new"))
    on_two = running.begin(ScopeKey("ocr", "2", "det", "new"))
    remove(running)
    with pytest.raises(WrongStateError, match="aborted"):
        running.write(on_one, "model.onnx", b"late")
    with pytest.raises(WrongStateError, match="aborted"):
        running.commit(on_one)
    running.write(on_two, "model.onnx", b"late")
    assert running.commit(on_two).generation == 2


def test_transactions_on_an_older_generation_end_with_it(running: Running) -> None:
    on_one = running.begin(ScopeKey("ocr", "1", "det", "new", 1))
    on_two = running.begin(ScopeKey("ocr", "1", "det", "newer"))
    remove(running, generation=1)
    with pytest.raises(WrongStateError, match="aborted"):
        running.commit(on_one)
    running.write(on_two, "model.onnx", b"late")
    assert running.commit(on_two).generation == 3


def test_whoever_reads_it_hears_that_it_was_removed(running: Running) -> None:
    with running.payloads.read(ME, SCOPE, "model.onnx", running.scratch) as source:
        source.permit.check()
        remove(running)
        with pytest.raises(NotFoundError, match="removed meanwhile"):
            source.permit.check()
    with running.payloads.read(
        ME, ScopeKey("ocr", "2", "det", "onnx"), "model.onnx", running.scratch
    ) as other:
        other.permit.check()


def test_a_check_under_way_ends(running: Running) -> None:
    def told(*_step: object) -> None:
        if versions(running) != ["2"]:
            remove(running)

    with pytest.raises(NotFoundError, match="removed meanwhile"):
        running.packages.verify(ME, "ocr", "1", 0, told)


def test_a_transaction_is_never_published_on_a_package_imported_anew(running: Running) -> None:
    base = running.begin(ScopeKey("ocr", "1", "det", "new"))
    running.write(base, "model.onnx", b"sealed under a key that is gone")
    # as if it had been begun, and not yet been registered, when the version went
    del running.service.payloads._registry._open[base.id]
    remove(running)
    running.service.payloads._registry._open[base.id] = base
    running.import_("ocr", "1")
    with pytest.raises(ConflictError, match="imported anew"):
        running.commit(base)


def test_an_import_that_was_overtaken_by_one_that_was_removed_loses(tmp_path: Path) -> None:
    with Running(tmp_path) as running:
        text = json.dumps(
            {
                "schema_version": "1.0",
                "package_name": "ocr",
                "components": {"det": {"variants": {"onnx": {"executor_info": {}}}}},
            }
        )
        with running.packages.import_(ME, ImportPlan("ocr", "1", text)) as slow:
            slow.payload("det", "onnx", "model.onnx", "model", 1)
            slow.data(b"x")
            running.import_("ocr", "1")
            remove(running)
            with pytest.raises(AlreadyExistsError, match="faster"):
                slow.finish(1)
        assert running.import_("ocr", "1").generation == 2


def test_a_damaged_version_can_be_removed(running: Running) -> None:
    (running.generation(number=2) / "manifest.json").write_bytes(b"{}")
    edit_record(running.generation(number=1), lambda record: record.update(name="x"))
    assert remove(running) == (2, 1)
    assert versions(running) == ["2"]


def test_a_version_whose_generations_are_behind_a_link_can_be_removed(running: Running) -> None:
    generations = running.generation().parent
    shutil.move(generations, running.root / "elsewhere")
    generations.symlink_to(running.root / "elsewhere")
    assert remove(running) == ()
    assert (running.root / "elsewhere/1/manifest.json").exists(), "nothing beyond a link is touched"
    assert running.import_("ocr", "1").generation == 3


def test_a_shredded_version_isnt_removed_and_its_tombstone_stays(running: Running) -> None:
    running.service.keys.shred("ocr", "1")
    with pytest.raises(NotFoundError, match="shredded"):
        remove(running)
    with pytest.raises(AlreadyExistsError):
        running.import_("ocr", "1")


def test_nothing_goes_while_nobody_can_tell_which_version_is_current(running: Running) -> None:
    pointer = running.store_path / "ocr/current"
    pointer.write_text(pointer.read_text().replace('"record": "', '"record": "x'))
    running.close()
    with Running(running.root) as again:
        with pytest.raises(NotAuthenticError):
            remove(again)
        assert versions(again) == ["1", "2"]


@pytest.mark.parametrize(
    ("version", "kind"),
    [("", InvalidRequestError), ("9", NotFoundError), ("../2", InvalidNameError)],
)
def test_what_names_no_version_removes_nothing(
    running: Running, version: str, kind: type[Exception]
) -> None:
    with pytest.raises(kind):
        remove(running, version)
    assert versions(running) == ["1", "2"]


def test_a_removal_that_a_crash_cut_before_its_rename_never_was(running: Running) -> None:
    seen = running.service.removing._seen
    seen.leaving("ocr", "1", 2)
    assert running.read(SCOPE) == MODEL
    running.close()
    with Running(running.root) as again:
        assert again.read(SCOPE) == MODEL
        shutil.rmtree(again.store_path / "ocr/1")
        with pytest.raises(RolledBackError):
            again.payloads.open(ME, SCOPE)


def test_a_removal_that_a_crash_cut_after_its_rename_is_one(running: Running) -> None:
    running.service.removing._seen.leaving("ocr", "1", 2)
    shutil.rmtree(running.store_path / "ocr/1")
    with pytest.raises(NotFoundError):
        running.payloads.open(ME, SCOPE)
    running.close()
    with Running(running.root) as again:
        with pytest.raises(NotFoundError):
            again.payloads.open(ME, SCOPE)
        assert again.import_("ocr", "1").generation == 3


def test_a_link_in_the_place_of_a_package_keeps_no_daemon_from_starting(running: Running) -> None:
    running.service.removing._seen.leaving("ocr", "1", 2)
    running.close()
    package = running.store_path / "ocr"
    package.rename(running.root / "elsewhere")
    package.symlink_to(running.root / "elsewhere")
    with Running(running.root) as again:
        assert again.listing.list(ME) == []
    package.unlink()
    (running.root / "elsewhere").rename(package)
    with Running(running.root) as again:
        assert again.read(SCOPE) == MODEL


def test_what_was_shredded_and_not_removed_whole_keeps_its_tombstone(running: Running) -> None:
    copy = put_back(running)
    running.service.keys.shred("ocr", "1")
    # as a crash of the shredding leaves it
    shutil.copytree(copy / "g", running.store_path / "ocr/1/g", dirs_exist_ok=True)
    with pytest.raises(NotFoundError, match="shredded"):
        remove(running)
    running.service.keys.shred("ocr", "1")
    with pytest.raises(AlreadyExistsError):
        running.import_("ocr", "1")


def test_a_state_directory_that_is_gone_is_no_missing_package_and_not_named_to_callers(
    running: Running, tmp_path: Path
) -> None:
    state = running.root / "state"
    state.rename(tmp_path / "away")
    with pytest.raises(StorageError, match="state directory") as refused:
        remove(running)
    assert str(tmp_path) not in str(refused.value)
    (tmp_path / "away").rename(state)
    assert remove(running) == (2, 1)


def test_what_the_daemon_could_not_remember_is_not_removed(
    running: Running, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Else a crash would leave a version that looks as if it had been taken away by force."""

    def full(*_: object) -> None:
        raise ExhaustedError("no room")

    with monkeypatch.context() as patched:
        patched.setattr(state_file, "replace", full)
        with pytest.raises(ExhaustedError):
            remove(running)
        assert versions(running) == ["1", "2"]
        assert running.read(SCOPE) == MODEL
    assert remove(running) == (2, 1)
