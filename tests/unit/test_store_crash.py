"""kill -9 at any step leaves the old generation or the new, whole; the next start cleans up."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from support.asset_packages import AssetPackage, asset_folders, sealed_uri
from support.crashing import SHARING
from support.services import ME, MODEL, Running
from support.tampering import edit_manifest

from sealcar.errors import NotAuthenticError, NotFoundError
from sealcar.modelpackage import hash_directory
from sealcar_server.service.values import ScopeKey

if TYPE_CHECKING:
    from collections.abc import Callable

TESTS = Path(__file__).parents[1]
SMALL = {("det", "onnx", "model.onnx"): b"small"}


def crash_at_every_step(kind: str, template: Path, target: Path) -> list[Path]:
    target.mkdir()
    ran = subprocess.run(
        [sys.executable, "-m", "support.crashing", kind, str(template), str(target)],
        cwd=TESTS,
        check=True,
        capture_output=True,
        text=True,
        timeout=240,
    )
    steps = int(ran.stdout.split()[-1])
    assert steps > 10, "the writer must have been killed at many steps"
    return [target / str(step) for step in range(steps + 1)]


def whole(running: Running, version: str) -> int:
    """Return the newest generation, every byte of which was checked."""
    verified = running.packages.verify(ME, "ocr", version, 0, lambda *_: None)
    assert not any((running.store_path / ".staging").iterdir())
    return int(verified.generation)


@pytest.mark.timeout(280)
def test_a_commit_killed_at_any_step_leaves_the_old_or_the_new_generation(tmp_path: Path) -> None:
    with Running(tmp_path / "template") as running:
        running.import_()
    found = []
    for root in crash_at_every_step("commit", tmp_path / "template", tmp_path / "crashed"):
        with Running(root) as running:
            found.append(whole(running, ""))
            assert running.read(ScopeKey("ocr", "", "det", "onnx")) == MODEL
            again = running.add_variant(ScopeKey("ocr", "", "det", "after"))
            assert again.generation == found[-1] + 1
    assert found == sorted(found), "once published it stays published"
    assert (found[0], found[-1]) == (1, 2)


@pytest.mark.timeout(280)
def test_an_import_killed_at_any_step_leaves_all_of_it_or_nothing(tmp_path: Path) -> None:
    with Running(tmp_path / "template") as running:
        running.import_()
    current = []
    for root in crash_at_every_step("import", tmp_path / "template", tmp_path / "crashed"):
        with Running(root) as running:
            for summary in running.listing.list(ME):
                whole(running, summary.version)
            current.append(running.looking.get(ME, "ocr").summary.version)
    assert current == sorted(current)
    assert (current[0], current[-1]) == ("1", "2")


@pytest.mark.timeout(280)
def test_an_import_with_assets_killed_at_any_step_leaves_all_of_it_or_nothing(
    tmp_path: Path,
) -> None:
    with Running(tmp_path / "template") as running:
        AssetPackage.with_weights().import_into(running)
    found = []
    for root in crash_at_every_step("assets", tmp_path / "template", tmp_path / "crashed"):
        with Running(root) as running:
            there = running.store.versions("ocr")
            for version in there:
                whole(running, version)
            found.append("2" in there)
            # whatever the index says by now, it leads nobody astray
            SHARING.import_into(running, "ocr", "3")
            whole(running, "3")
            for folder in asset_folders(running.generation(version="3")):
                assert hash_directory(folder) == sealed_uri(folder)
    assert found == sorted(found), "once published it stays published"
    assert (found[0], found[-1]) == (False, True)


@pytest.mark.timeout(280)
def test_a_removal_killed_at_any_step_leaves_the_version_or_takes_it_whole(tmp_path: Path) -> None:
    with Running(tmp_path / "template") as running:
        running.import_(payloads=SMALL)
        running.add_variant(ScopeKey("ocr", "", "det", "qnn"))
        running.import_("ocr", "2", payloads=SMALL)
    found = []
    for root in crash_at_every_step("remove", tmp_path / "template", tmp_path / "crashed"):
        with Running(root) as running:
            versions = [summary.version for summary in running.listing.list(ME)]
            found.append(len(versions))
            for version in versions:
                whole(running, version)
            if versions == ["2"]:
                with pytest.raises(NotFoundError):
                    running.payloads.open(ME, ScopeKey("ocr", "1", "det", "onnx"))
                assert running.import_("ocr", "1", payloads=SMALL).generation == 3
            assert not any((running.store_path / ".staging").iterdir())
    assert found == sorted(found, reverse=True), "once removed it stays removed"
    assert (found[0], found[-1]) == (2, 1)


@pytest.mark.timeout(280)
def test_a_prune_killed_at_any_step_leaves_generations_or_takes_them_whole(tmp_path: Path) -> None:
    with Running(tmp_path / "template") as running:
        running.import_(payloads=SMALL)
        for variant in ("a", "b"):
            running.add_variant(ScopeKey("ocr", "", "det", variant))
    found = []
    for root in crash_at_every_step("prune", tmp_path / "template", tmp_path / "crashed"):
        with Running(root) as running:
            numbers = running.store.numbers("ocr", "1")
            found.append(len(numbers))
            for number in numbers:
                running.packages.verify(ME, "ocr", "1", number, lambda *_: None)
            assert not any((running.store_path / ".staging").iterdir())
    assert found == sorted(found, reverse=True)
    assert (found[0], found[-1]) == (3, 1)


@pytest.mark.timeout(280)
def test_a_change_of_the_current_version_killed_at_any_step_is_done_or_not(tmp_path: Path) -> None:
    with Running(tmp_path / "template") as running:
        running.import_(payloads=SMALL)
        running.import_("ocr", "2", payloads=SMALL)
    found = []
    for root in crash_at_every_step("choose", tmp_path / "template", tmp_path / "crashed"):
        with Running(root) as running:
            found.append(running.looking.get(ME, "ocr").summary.version)
            assert running.service.choosing.choose(ME, "ocr", "1") == found[-1]
            assert running.looking.get(ME, "ocr").summary.version == "1"
    assert found == sorted(found, reverse=True)
    assert (found[0], found[-1]) == ("2", "1")


def test_everything_is_durable_before_the_rename_and_the_rename_before_the_answer(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls: list[tuple[str, str]] = []

    def noted(name: str, real: Callable[..., object]) -> Callable[..., object]:
        def call(*args: object, **options: object) -> object:
            fd = options.get("dst_dir_fd", args[0])
            calls.append((name, str(Path(f"/proc/self/fd/{fd}").readlink())))
            return real(*args, **options)

        return call

    with Running(tmp_path) as running:
        running.import_()
        transaction = running.begin(ScopeKey("ocr", "", "det", "qnn"))
        running.write(transaction, "a/b.onnx", b"x")
        for name in ("fsync", "rename"):
            monkeypatch.setattr(os, name, noted(name, getattr(os, name)))
        running.commit(transaction)
        monkeypatch.undo()
    generations = str(running.generation().parent)
    at = calls.index(("rename", generations))
    staging = running.store_path / ".staging"
    durable = [
        Path(path).relative_to(staging) for name, path in calls[:at] if Path(path) != staging
    ]
    names = [str(Path(*path.parts[1:])) for path in durable]
    # a file before its directory, a directory before the one above it, the top last
    for earlier, later in [
        ("manifest.json", "."),
        ("det/qnn/a/b.onnx", "det/qnn/a"),
        ("det/qnn/a", "det/qnn"),
        ("det/onnx", "det"),
        ("det/qnn", "det"),
        ("det", "."),
    ]:
        last = len(names) - 1 - names[::-1].index(later)
        assert names.index(earlier) < last, (earlier, later)
    assert names[-1] == "."
    assert ("fsync", generations) in calls[at:]


@pytest.mark.timeout(280)
def test_a_reseal_killed_at_any_step_leaves_the_edited_or_the_sealed_generation(
    tmp_path: Path,
) -> None:
    with Running(tmp_path / "template") as running:
        running.import_()
        edit_manifest(running.generation(), lambda manifest: manifest.update(package_name="wanted"))
    found = []
    for root in crash_at_every_step("reseal", tmp_path / "template", tmp_path / "crashed"):
        with Running(root) as running:
            found.append(running.store.newest("ocr", "1"))
            if found[-1] == 1:
                with pytest.raises(NotAuthenticError, match="package_name"):
                    whole(running, "")
                seen = running.service.resealer.reseal(ME, "ocr", "", None)
                running.service.resealer.reseal(ME, "ocr", "", seen.manifest_sha256)
            assert whole(running, "") == 2
            assert running.read(ScopeKey("ocr", "", "det", "onnx")) == MODEL
    assert found == sorted(found), "once published it stays published"
    assert (found[0], found[-1]) == (1, 2)
