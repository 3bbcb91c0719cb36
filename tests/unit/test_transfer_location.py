from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pytest

from sealcar.errors import ConfigurationError, UnavailableError
from sealcar.transfer.location import Location

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture(autouse=True)
def _bare(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("SEALCAR_SOCKET", "SEALCAR_PEER_UID", "XDG_RUNTIME_DIR"):
        monkeypatch.delenv(name, raising=False)


def test_the_argument_comes_before_the_environment(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SEALCAR_SOCKET", "/elsewhere")
    monkeypatch.setenv("SEALCAR_PEER_UID", "7")
    assert Location.find(tmp_path, 5) == Location(tmp_path, 5)
    assert Location.find(None, None).directory.as_posix() == "/elsewhere"
    assert Location.find(None, None).expected_uid() == 7


def test_without_anything_set_the_runtime_directory_is_looked_at(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("sealcar.transfer.location._SYSTEM", _Nowhere())
    with pytest.raises(ConfigurationError, match="SEALCAR_SOCKET"):
        Location.find(None, None)
    monkeypatch.setenv("XDG_RUNTIME_DIR", "/run/user/5")
    assert Location.find(None, None).data == "/run/user/5/sealcar/default/data.sock"


class _Nowhere:
    def is_dir(self) -> bool:
        return False


def test_the_owner_of_a_directory_that_nobody_else_can_write_is_the_daemon(
    tmp_path: Path,
) -> None:
    tmp_path.chmod(0o755)
    assert Location.find(tmp_path, None).expected_uid() == os.getuid()


@pytest.mark.parametrize("mode", [0o775, 0o757, 0o1777])
def test_a_directory_that_others_can_write_says_nothing(tmp_path: Path, mode: int) -> None:
    tmp_path.chmod(mode)
    with pytest.raises(ConfigurationError, match="SEALCAR_PEER_UID"):
        Location.find(tmp_path, None).expected_uid()
    assert Location.find(tmp_path, 3).expected_uid() == 3


def test_a_directory_that_is_not_there_is_a_daemon_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(UnavailableError, match="no daemon"):
        Location.find(tmp_path / "none", None).expected_uid()


def test_a_path_too_long_for_a_socket_is_refused_with_its_length(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match="107"):
        Location.find(tmp_path / ("x" * 100), None)


@pytest.mark.parametrize("path", ["x\0y", "\ud800"])
def test_a_path_that_no_directory_can_have_is_refused(path: str) -> None:
    with pytest.raises(ConfigurationError):
        Location.find(path, None)


@pytest.mark.parametrize("text", ["-1", "0x5", "me", "٣", "9" * 5000])
def test_a_uid_in_the_environment_must_be_digits(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, text: str
) -> None:
    monkeypatch.setenv("SEALCAR_PEER_UID", text)
    with pytest.raises(ConfigurationError, match="SEALCAR_PEER_UID"):
        Location.find(tmp_path, None)


def test_a_relative_directory_is_meant_from_where_the_client_was_made(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    found = Location.find("run", 0)
    monkeypatch.chdir("/")
    assert found.directory == tmp_path / "run"


@pytest.mark.parametrize(("length", "fits"), [(107, True), (108, False), (200, False)])
def test_the_longest_path_of_a_socket_is_counted_in_bytes(length: int, fits: bool) -> None:  # noqa: FBT001  (parametrized)
    for letter in ("x", "é"):
        rest = length - len("/") - len("/data.sock")
        name = letter * (rest // len(letter.encode()))
        name += "x" * (rest - len(name.encode()))
        if fits:
            assert len(os.fsencode(Location.find(f"/{name}", 0).data)) == length
        else:
            with pytest.raises(ConfigurationError, match=str(length)):
                Location.find(f"/{name}", 0)


def test_a_symbolic_link_to_the_directory_is_followed_to_its_owner(tmp_path: Path) -> None:
    real = tmp_path / "real"
    real.mkdir(mode=0o777)
    real.chmod(0o777)
    link = tmp_path / "link"
    link.symlink_to(real)
    with pytest.raises(ConfigurationError, match="others"):
        Location.find(link, None).expected_uid()
    real.chmod(0o755)
    assert Location.find(link, None).expected_uid() == os.getuid()
