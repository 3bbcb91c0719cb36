"""A full disk: a typed error, nothing half-published, and the next request is served."""

from __future__ import annotations

import os
import subprocess
from contextlib import suppress
from typing import TYPE_CHECKING

import pytest
from support.asset_packages import AssetPackage
from support.crashing import SHARING
from support.services import ME, MODEL, Running

from sealcar.errors import ExhaustedError, SealcarError
from sealcar_server.service.values import ScopeKey
from sealcar_server.store.identity import StoreIdentity
from sealcar_server.store.local import LocalStore

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

pytestmark = pytest.mark.root


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    root = tmp_path / "disk"
    root.mkdir()
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=6m,nr_inodes=200", "tmpfs", str(root)],  # noqa: S607
        check=False,
        capture_output=True,
    )
    if mounted.returncode:
        pytest.skip("mounting a small file system isn't allowed here")
    try:
        yield root
    finally:
        subprocess.run(["umount", str(root)], check=True)  # noqa: S607


def filled(disk: Path) -> list[Path]:
    """Take every file that the disk has room for; removing one makes room for another."""
    filler = disk / "filler"
    filler.mkdir()
    made: list[Path] = []
    with suppress(OSError):
        while True:
            path = filler / str(len(made))
            path.touch()
            made.append(path)
    return made


def test_a_disk_that_fills_while_writing_fails_typed_and_serves_on(small_disk: Path) -> None:
    scope = ScopeKey("ocr", "", "det", "qnn")
    with Running(small_disk) as running:
        running.import_()
        transaction = running.begin(scope)
        with pytest.raises(ExhaustedError) as failed:
            running.write(transaction, "model.onnx", os.urandom(8 << 20))
        assert failed.value.place.payload in {"model.onnx", ""}
        # what didn't fit is gone, so the name is free and there is room again
        running.write(transaction, "model.onnx", b"small")
        assert running.commit(transaction).generation == 2
        assert running.read(ScopeKey("ocr", "", "det", "qnn")) == b"small"


def test_a_disk_that_fills_while_importing_leaves_nothing(small_disk: Path) -> None:
    with Running(small_disk) as running:
        running.import_()
        big = {("det", "onnx", "model.onnx"): os.urandom(8 << 20)}
        with pytest.raises(ExhaustedError) as failed:
            running.import_("big", payloads=big)
        assert (failed.value.place.phase, failed.value.place.package) == ("seal", "big")
        assert [summary.name for summary in running.listing.list(ME)] == ["ocr"]
        assert not any((running.store_path / ".staging").iterdir())
        assert running.read(ScopeKey("ocr", "", "det", "onnx")) == MODEL


def test_a_disk_that_fills_at_any_step_of_a_commit_publishes_nothing(small_disk: Path) -> None:
    with Running(small_disk) as running:
        running.import_()
        transaction = running.begin(ScopeKey("ocr", "", "det", "qnn"))
        running.write(transaction, "model.onnx", b"x")
        filler = filled(small_disk)
        failures = 0
        while running.store.newest("ocr", "1") == 1:
            try:
                running.commit(transaction)
            except ExhaustedError:
                failures += 1
                assert running.read(ScopeKey("ocr", "", "det", "onnx")) == MODEL
                filler.pop().unlink()
            except SealcarError as error:  # pragma: no cover
                pytest.fail(f"not typed as exhausted: {error!r}")
        assert failures >= 2
        assert running.read(ScopeKey("ocr", "", "det", "qnn")) == b"x"


def test_a_disk_that_fills_at_any_step_of_an_import_with_assets_leaves_nothing(
    small_disk: Path,
) -> None:
    with Running(small_disk) as running:
        AssetPackage.with_weights().import_into(running)
        filler = filled(small_disk)
        failures = 0
        while not running.store.newest("twin", "1"):
            try:
                SHARING.import_into(running, "twin")
            except ExhaustedError:
                failures += 1
                assert not any((running.store_path / ".staging").iterdir())
                assert [summary.name for summary in running.listing.list(ME)] == ["ocr"]
                filler.pop().unlink()
            except SealcarError as error:  # pragma: no cover
                pytest.fail(f"not typed as exhausted: {error!r}")
        assert failures >= 5
        for name in ("ocr", "twin"):
            running.packages.verify(ME, name, "", 0, lambda *_: None)


def test_a_store_that_could_not_be_founded_can_be_founded_later(small_disk: Path) -> None:
    identity = StoreIdentity(bytes(16), "main", "1", b"wrapped")
    hog = small_disk / "hog"
    room = os.statvfs(small_disk)
    hog.write_bytes(bytes(room.f_bavail * room.f_frsize))
    with pytest.raises(ExhaustedError):
        LocalStore.create(small_disk / "store", identity)
    hog.unlink()
    with LocalStore.create(small_disk / "store", identity) as store:
        assert store.identity == identity
