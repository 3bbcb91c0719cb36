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


@pytest.mark.parametrize("text", ["-1", "0x5", "me", "٣"])
def test_a_uid_in_the_environment_must_be_digits(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, text: str
) -> None:
    monkeypatch.setenv("SEALCAR_PEER_UID", text)
    with pytest.raises(ConfigurationError, match="SEALCAR_PEER_UID"):
        Location.find(tmp_path, None)
