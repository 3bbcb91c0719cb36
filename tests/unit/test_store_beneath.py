from __future__ import annotations

import errno
import os
from typing import TYPE_CHECKING

import pytest
from support.raw_clients import descriptors

from sealcar.errors import InvalidNameError, NotAuthenticError, NotFoundError, StorageError
from sealcar_server.store.beneath import open_beneath
from sealcar_server.store.directory import Directory

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


@pytest.fixture
def below(tmp_path: Path) -> Iterator[Directory]:
    (tmp_path / "root" / "a" / "b").mkdir(parents=True)
    (tmp_path / "root" / "a" / "b" / "file").write_bytes(b"within")
    (tmp_path / "outside").write_bytes(b"outside")
    with Directory.open(tmp_path / "root") as directory:
        yield directory


def test_a_file_some_steps_down_is_opened_in_one_call(below: Directory) -> None:
    fd = open_beneath(below.fd, ["a", "b", "file"], os.O_RDONLY | os.O_CLOEXEC)
    assert fd is not None
    with os.fdopen(fd, "rb") as file:
        assert file.read() == b"within"
        assert not os.get_inheritable(fd)


@pytest.mark.parametrize("relative", [False, True])
@pytest.mark.parametrize("step", ["a", "a/b", "a/b/file"])
def test_a_link_at_any_step_is_refused_wherever_it_leads(
    below: Directory, tmp_path: Path, step: str, *, relative: bool
) -> None:
    place, moved = tmp_path / "root" / step, tmp_path / "root" / "moved"
    place.rename(moved)
    place.symlink_to(os.path.relpath(moved, place.parent) if relative else moved)
    assert open_beneath(below.fd, ["a", "b", "file"], os.O_RDONLY) is None
    with pytest.raises(NotAuthenticError):
        below.open_below("a", "b", "file")


def test_nothing_outside_is_reached_by_a_name(below: Directory) -> None:
    assert open_beneath(below.fd, ["..", "outside"], os.O_RDONLY) is None
    for name in ("..", "a/../..", "", "\0"):
        with pytest.raises(InvalidNameError):
            below.open_below(name, "outside")


def test_what_is_no_regular_file_is_refused_and_holds_nobody_up(
    below: Directory, tmp_path: Path
) -> None:
    os.mkfifo(tmp_path / "root" / "a" / "pipe")
    before = descriptors(os.getpid())
    for name in ("pipe", "b"):
        with pytest.raises(NotAuthenticError):
            below.open_below("a", name)
    with pytest.raises(NotFoundError):
        below.open_below("a", "nothing")
    assert descriptors(os.getpid()) == before


@pytest.mark.parametrize("call", [437, 9999], ids=["in one call", "step by step"])
def test_a_disk_that_fails_at_the_last_look_is_a_storage_error_and_leaves_nothing_open(
    below: Directory, monkeypatch: pytest.MonkeyPatch, call: int
) -> None:
    def broken(_: int) -> os.stat_result:
        raise OSError(errno.EIO, os.strerror(errno.EIO))

    monkeypatch.setattr("sealcar_server.store.beneath._OPENAT2", call)
    before = descriptors(os.getpid())
    with monkeypatch.context() as failing:
        failing.setattr(os, "fstat", broken)
        with pytest.raises(StorageError, match="Input/output error"):
            below.open_below("a", "b", "file")
    assert descriptors(os.getpid()) == before


def test_without_the_kernels_call_the_steps_are_taken_one_by_one(
    below: Directory, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sealcar_server.store.beneath._OPENAT2", 9999)
    assert open_beneath(below.fd, ["a", "b", "file"], os.O_RDONLY) is None
    with os.fdopen(below.open_below("a", "b", "file"), "rb") as file:
        assert file.read() == b"within"


@pytest.mark.parametrize("call", [437, 9999], ids=["in one call", "step by step"])
def test_a_directory_some_steps_down_is_entered_and_never_through_a_link(
    below: Directory, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, call: int
) -> None:
    monkeypatch.setattr("sealcar_server.store.beneath._OPENAT2", call)
    (tmp_path / "root" / "link").symlink_to(tmp_path / "root" / "a")
    before = descriptors(os.getpid())
    with below.enter("a", "b") as directory:
        assert directory.names() == ["file"]
    for steps in (("link", "b"), ("a", "b", "file"), ("a", "b", "file", "c")):
        with pytest.raises(NotAuthenticError):
            below.enter(*steps)
    with pytest.raises(NotFoundError):
        below.enter("a", "nothing")
    with pytest.raises(InvalidNameError):
        below.enter("a", "..")
    assert descriptors(os.getpid()) == before


def test_a_small_file_some_steps_down_is_read_up_to_its_limit(below: Directory) -> None:
    assert below.read_below("a", "b", "file", limit=6) == b"within"
    with pytest.raises(NotAuthenticError, match="longer than 5 bytes"):
        below.read_below("a", "b", "file", limit=5)
