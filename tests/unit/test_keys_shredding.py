"""A shredded package is gone from the store whole, and its name can't come back."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from support.rotating import turn
from support.services import ME, MODEL, Running

from sealcar.errors import AlreadyExistsError, DamagedError, NotFoundError
from sealcar_server.service.rewrapping import Wanted
from sealcar_server.service.values import ScopeKey

if TYPE_CHECKING:
    from collections.abc import Iterator

SCOPE = ScopeKey("ocr", "1", "det", "onnx")


@pytest.fixture
def running(tmp_path: Path) -> Iterator[Running]:
    with Running(tmp_path) as made:
        made.import_()
        made.import_("other")
        yield made


def wraps(root: Path, name: str) -> list[Path]:
    return list((root / "store" / name).rglob("manifest.json"))


def test_every_generation_goes_and_a_tombstone_stays(running: Running) -> None:
    running.add_variant(ScopeKey("ocr", "1", "det", "qnn"))
    assert running.read(SCOPE) == MODEL
    done = running.service.keys.shred("ocr", "1")
    (grave,) = done.graves
    assert (grave.name, grave.version, grave.numbers) == ("ocr", "1", (2, 1))
    place = running.store_path / "ocr" / "1"
    assert sorted(path.name for path in place.rglob("*")) == ["g", "tombstone"]
    assert not list((running.store_path / ".staging").iterdir())
    assert running.read(ScopeKey("other", "1", "det", "onnx")) == MODEL


@pytest.mark.parametrize("generation", [0, 1, 2])
@pytest.mark.parametrize("version", ["", "1"])
def test_what_was_shredded_isnt_found(running: Running, version: str, generation: int) -> None:
    running.service.keys.shred("ocr")
    with pytest.raises(NotFoundError):
        running.read(ScopeKey("ocr", version, "det", "onnx", generation))
    assert [one.name for one in running.listing.list(ME)] == ["other"]
    with pytest.raises(NotFoundError):
        running.service.keys.shred("ocr")


def test_the_version_cant_be_imported_again(running: Running) -> None:
    running.service.keys.shred("ocr")
    with pytest.raises(AlreadyExistsError):
        running.import_()
    # even where what was seen is forgotten
    root = running.root
    running.close()
    (root / "state" / "seen.json").unlink()
    with Running(root) as again:
        with pytest.raises(AlreadyExistsError):
            again.import_()
        again.import_("ocr", "2")
        assert again.read(ScopeKey("ocr", "", "det", "onnx")) == MODEL


def test_a_name_alone_means_all_its_versions(running: Running) -> None:
    running.import_("ocr", "2")
    assert {grave.version for grave in running.service.keys.shred("ocr").graves} == {"1", "2"}
    assert not wraps(running.root, "ocr")


def test_one_version_leaves_the_others(running: Running) -> None:
    running.import_("ocr", "2")
    running.service.keys.shred("ocr", "2")
    assert running.read(SCOPE) == MODEL
    with pytest.raises(NotFoundError):
        running.service.keys.shred("ocr", "3")


def test_a_damaged_package_can_be_shredded(running: Running) -> None:
    (running.generation() / "manifest.json").write_bytes(b"{")
    assert running.service.keys.shred("ocr").graves[0].numbers == (1,)
    assert not wraps(running.root, "ocr")


def test_what_is_under_a_revoked_version_can_be_shredded(running: Running) -> None:
    (running.generation() / "det/onnx/model.onnx").unlink()
    running.service.keys.rotate()
    running.service.keys.rewrap(Wanted(), lambda *_: None)
    running.service.keys.revoke("1")
    running.service.keys.shred("ocr")
    assert not wraps(running.root, "ocr")


def test_transfers_and_transactions_of_it_end_and_no_others(running: Running) -> None:
    lost = running.begin(ScopeKey("ocr", "1", "det", "qnn"))
    kept = running.begin(ScopeKey("other", "1", "det", "qnn"))
    other = ScopeKey("other", "1", "det", "onnx")
    with (
        running.payloads.read(ME, SCOPE, "model.onnx", running.scratch) as reading,
        running.payloads.read(ME, other, "model.onnx", running.scratch) as going_on,
    ):
        assert running.service.keys.shred("ocr").aborted == 1
        with pytest.raises(NotFoundError):
            reading.permit.check()
        going_on.permit.check()
    assert (lost.ended, kept.ended) == (True, False)
    kept.abort()


def test_whoever_opened_it_just_before_hears_that_it_is_gone_and_not_of_damage(
    running: Running,
) -> None:
    remembered = running.payloads._opener.open("ocr")
    running.service.keys.shred("ocr")
    running.payloads._opener._remembered.put(remembered)
    with pytest.raises(NotFoundError):
        running.read(SCOPE)


def test_generations_put_back_from_a_copy_arent_served(running: Running, tmp_path: Path) -> None:
    copy = tmp_path / "copy"
    shutil.copytree(running.generation(), copy)
    running.service.keys.shred("ocr")
    shutil.copytree(copy, running.generation())
    with pytest.raises(NotFoundError, match="shredded"):
        running.read(SCOPE)
    moved = running.service.keys.rewrap(Wanted(), lambda *_: None)
    assert (moved.packages, moved.failed) == (0, 1)


def test_a_forged_tombstone_is_damage(running: Running) -> None:
    running.service.keys.shred("ocr")
    stone = running.store_path / "ocr" / "1" / "tombstone"
    moved = running.store_path / "other" / "1" / "tombstone"
    shutil.copy(stone, moved)
    root = running.root
    running.close()
    with Running(root) as again:
        with pytest.raises(DamagedError):
            again.read(ScopeKey("other", "1", "det", "onnx"))
        value = json.loads(stone.read_bytes())
        moved.write_text(json.dumps({**value, "tag": "A" * 43}))
        with pytest.raises(DamagedError):
            again.read(ScopeKey("other", "1", "det", "onnx"))


def test_a_rotated_store_key_still_knows_its_tombstones(running: Running) -> None:
    running.service.keys.shred("ocr")
    turn(running)
    with pytest.raises(NotFoundError, match="shredded"):
        running.read(SCOPE)


def test_killed_at_any_step_nothing_half_is_served_and_it_can_be_done_again(
    tmp_path: Path,
) -> None:
    template = tmp_path / "template"
    with Running(template) as running:
        running.import_()
        running.add_variant(ScopeKey("ocr", "1", "det", "qnn"))
    made = subprocess.run(
        [sys.executable, "-m", "support.crashing", "shred", str(template), str(tmp_path / "k")],
        cwd=Path(__file__).parents[1],
        capture_output=True,
        text=True,
        check=True,
    )
    steps = int(made.stdout.split()[-1])
    assert steps > 10
    for after in range(steps):
        root = tmp_path / "k" / str(after)
        with Running(root) as running:
            buried = os.path.lexists(root / "store" / "ocr" / "1" / "tombstone")
            if buried:
                with pytest.raises(NotFoundError):
                    running.read(SCOPE)
            else:
                assert running.read(SCOPE) == MODEL
            if wraps(root, "ocr"):
                running.service.keys.shred("ocr")
            assert not wraps(root, "ocr")
            assert not list((root / "store" / ".staging").iterdir())
            with pytest.raises(NotFoundError):
                running.read(SCOPE)
        shutil.rmtree(root)
