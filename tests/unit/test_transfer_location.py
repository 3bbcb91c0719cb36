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


def test_a_directory_above_that_others_can_write_says_nothing_of_who_is_below(
    tmp_path: Path,
) -> None:
    folder = tmp_path / "above" / "default"
    folder.mkdir(parents=True)
    folder.parent.chmod(0o777)
    with pytest.raises(ConfigurationError, match=r"can write to .*/above, .*SEALCAR_PEER_UID"):
        Location.find(folder, None).expected_uid()
    folder.parent.chmod(0o1777)  # nobody replaces it, and it is ours
    assert Location.find(folder, None).expected_uid() == os.geteuid()


def test_a_link_on_the_way_is_looked_at_where_it_lies_and_where_it_leads(tmp_path: Path) -> None:
    real, loose = tmp_path / "real", tmp_path / "loose"
    for folder in (real, loose):
        folder.mkdir()
    (loose / "second").symlink_to("../real")
    (tmp_path / "first").symlink_to(loose / "second")
    found = Location.find(tmp_path / "first", None)
    assert found.expected_uid() == os.geteuid()
    loose.chmod(0o777)
    with pytest.raises(ConfigurationError, match=r"can write to .*/loose,"):
        found.expected_uid()


def test_links_in_a_circle_lead_to_no_daemon(tmp_path: Path) -> None:
    (tmp_path / "a").symlink_to("b")
    (tmp_path / "b").symlink_to("a")
    with pytest.raises(UnavailableError, match="links"):
        Location.find(tmp_path / "a", None).expected_uid()


@pytest.mark.root
@pytest.mark.parametrize(
    ("above", "mode", "below", "said"),
    [
        (0, 0o755, 5000, 5000),  # as a service manager makes it for the daemon's user
        (5000, 0o755, 5000, 5000),  # the daemon's user has its home there
        (5000, 0o755, 0, None),
        (5000, 0o755, 5001, None),
        (0, 0o1777, 0, 0),
        (0, 0o1777, 5000, None),
    ],
)
def test_an_owner_is_believed_if_only_he_root_and_the_caller_could_put_him_there(
    tmp_path: Path, above: int, mode: int, below: int, said: int | None
) -> None:
    folder = tmp_path / "above" / "default"
    folder.mkdir(parents=True)
    os.chown(folder, below, below)
    os.chown(folder.parent, above, above)
    folder.parent.chmod(mode)
    found = Location.find(tmp_path / "above" / "x" / ".." / "default", None)
    (folder.parent / "x").mkdir()
    if said is None:
        with pytest.raises(ConfigurationError, match="SEALCAR_PEER_UID"):
            found.expected_uid()
    else:
        assert found.expected_uid() == said
