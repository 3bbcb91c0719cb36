"""Where an export goes: whole or not at all, and over nothing that is there."""

from __future__ import annotations

import os
import stat
import subprocess
import tarfile
from pathlib import Path
from typing import TYPE_CHECKING, Final

import pytest

from sealcar.errors import (
    AlreadyExistsError,
    ExhaustedError,
    InvalidNameError,
    InvalidRequestError,
    StorageError,
)
from sealcar.exports.paths import PayloadPath, check_path
from sealcar.exports.places import Folder
from sealcar.exports.tar import Tar

if TYPE_CHECKING:
    from collections.abc import Iterator

KINDS: Final = (Folder, Tar)
URI: Final = f"sha256:{'b' * 64}"


@pytest.fixture(params=KINDS, ids=["directory", "tar"])
def kind(request: pytest.FixtureRequest) -> type[Folder | Tar]:
    found: type[Folder | Tar] = request.param
    return found


def test_nothing_is_at_its_place_before_all_of_it_is(
    tmp_path: Path, kind: type[Folder | Tar]
) -> None:
    out = tmp_path / "out"
    with kind(out, private=False) as target:
        target.file("c/v/deep/x", 3)
        target.write(b"ab")
        target.write(b"c")
        target.file("manifest.json", 0)
        assert not out.exists()
        target.finish()
    assert [path.name for path in tmp_path.iterdir()] == ["out"]
    if kind is Tar:
        with tarfile.open(out) as archive:
            archive.extractall(tmp_path / "un", filter="data")
        out = tmp_path / "un"
    assert (out / "c/v/deep/x").read_bytes() == b"abc"
    assert (out / "manifest.json").read_bytes() == b""


def test_what_isnt_finished_leaves_nothing(tmp_path: Path, kind: type[Folder | Tar]) -> None:
    with kind(tmp_path / "out", private=False) as target:
        target.file("c/v/x", 3)
        assert list(tmp_path.iterdir())
    assert not list(tmp_path.iterdir())


def test_what_appears_meanwhile_is_never_overwritten(
    tmp_path: Path, kind: type[Folder | Tar]
) -> None:
    out = tmp_path / "out"
    with kind(out, private=False) as target:
        target.file("manifest.json", 0)
        out.mkdir()
        (out / "mine").write_bytes(b"mine")
        with pytest.raises(AlreadyExistsError):
            target.finish()
    assert (out / "mine").read_bytes() == b"mine"
    assert [path.name for path in tmp_path.iterdir()] == ["out"]


@pytest.mark.parametrize("private", [True, False])
def test_a_private_one_is_for_its_owner_only(
    tmp_path: Path, kind: type[Folder | Tar], *, private: bool
) -> None:
    old = os.umask(0)
    try:
        with kind(tmp_path / "out", private=private) as target:
            target.file("c/v/x", 0)
            target.finish()
    finally:
        os.umask(old)
    for path in (tmp_path / "out", *tmp_path.glob("out/**/*")):
        mode = stat.S_IMODE(path.stat().st_mode)
        assert mode == ((0o700, 0o600), (0o755, 0o644))[not private][path.is_file()]


@pytest.mark.parametrize("name", ["", "/", ".", "x\0y", "\ud800"])
def test_a_path_without_a_name_is_no_place(kind: type[Folder | Tar], name: str) -> None:
    with pytest.raises(InvalidRequestError):
        kind(Path(name), private=False)


def test_a_place_that_cant_be_written_is_said(tmp_path: Path, kind: type[Folder | Tar]) -> None:
    (tmp_path / "file").touch()
    for parent in ("file", "missing"):
        with pytest.raises(StorageError):
            kind(tmp_path / parent / "out", private=False)


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    root = tmp_path / "disk"
    root.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=256k", "tmpfs", str(root)]
    if subprocess.run(mount, capture_output=True, check=False).returncode:
        pytest.skip("mounting a small file system isn't allowed here")
    yield root
    subprocess.run(["umount", str(root)], check=True)  # noqa: S607  (the system's own)


@pytest.mark.root
def test_a_full_disk_is_said_and_what_was_written_is_gone(
    small_disk: Path, kind: type[Folder | Tar]
) -> None:
    with kind(small_disk / "out", private=False) as target:
        target.file("c/v/x", 1 << 20)
        with pytest.raises(ExhaustedError, match="out"):
            target.write(bytes(1 << 20))
    assert not list(small_disk.iterdir())


def test_a_long_and_foreign_path_is_in_a_tar_as_it_is(tmp_path: Path) -> None:
    path = f"é/{'v' * 200}/{'/'.join(['ü' * 90] * 5)}"
    with Tar(tmp_path / "out", private=False) as target:
        target.file(check_path(path), 1)
        target.write(b"x")
        target.finish()
    with tarfile.open(tmp_path / "out") as archive:
        assert archive.getnames() == [path]


@pytest.mark.parametrize(
    ("path", "found"),
    [
        ("c/v/x", PayloadPath("c", "v", "", "x")),
        ("c/v/deep/er/x", PayloadPath("c", "v", "", "deep/er/x")),
        (f"shared_assets/sha256-{'b' * 64}/a/b", PayloadPath("", "", URI, "a/b")),
        (f"c/sha256-{'b' * 64}/a", PayloadPath("c", f"sha256-{'b' * 64}", "", "a")),
    ],
)
def test_a_path_says_where_a_payload_belongs(path: str, found: PayloadPath) -> None:
    assert PayloadPath.parse(path) == found
    assert str(found) == path


@pytest.mark.parametrize("path", ["manifest.json", "x", "a/b", "shared_assets/b/x", "a/../x"])
def test_no_payload_lies_elsewhere(path: str) -> None:
    with pytest.raises(InvalidNameError):
        PayloadPath.parse(path)
