from __future__ import annotations

import os
import socket
from typing import TYPE_CHECKING

import pytest

from sealcar.errors import ConfigurationError, ResourceError
from sealcar_server.endpoints.listening import listen, socket_path, sole_server
from sealcar_server.hardening.ownership import require_private
from sealcar_server.trust import own_folder, shared_folder

if TYPE_CHECKING:
    from pathlib import Path


def test_what_only_the_owner_can_write_is_trusted(tmp_path: Path) -> None:
    file = tmp_path / "kek"
    file.touch(0o600)
    require_private(file, "key")


@pytest.mark.parametrize("mode", [0o620, 0o602])
def test_a_file_that_others_can_write_is_refused(tmp_path: Path, mode: int) -> None:
    file = tmp_path / "kek"
    file.touch()
    file.chmod(mode)
    with pytest.raises(ConfigurationError, match=r"key .*kek: others .* can write .*chmod go-w"):
        require_private(file, "key")


def test_a_directory_above_that_others_can_write_is_refused(tmp_path: Path) -> None:
    folder = tmp_path / "open"
    (folder / "inner").mkdir(parents=True)
    folder.chmod(0o777)
    with pytest.raises(ConfigurationError, match=r"others .* can write .*open;"):
        require_private(folder / "inner", "store")
    require_private(folder / "inner", "directory", above=False)


def test_a_sticky_directory_above_is_fine_but_not_the_thing_itself(tmp_path: Path) -> None:
    folder = tmp_path / "tmp"
    (folder / "inner").mkdir(parents=True)
    folder.chmod(0o1777)
    require_private(folder / "inner", "store")
    with pytest.raises(ConfigurationError, match="others"):
        require_private(folder, "store")


def test_a_link_is_followed_to_where_it_leads(tmp_path: Path) -> None:
    target = tmp_path / "open"
    target.mkdir()
    target.chmod(0o777)
    (tmp_path / "link").symlink_to(target)
    with pytest.raises(ConfigurationError, match=r"others .* can write .*open;"):
        require_private(tmp_path / "link", "store")


def test_every_link_on_the_way_counts_with_the_directories_above_it(tmp_path: Path) -> None:
    target, between = tmp_path / "target", tmp_path / "between"
    target.mkdir()
    between.mkdir()
    between.joinpath("second").symlink_to("../target")
    tmp_path.joinpath("first").symlink_to(between / "second")
    require_private(tmp_path / "first", "store")
    # whoever can write there has the second link lead elsewhere
    between.chmod(0o777)
    with pytest.raises(ConfigurationError, match=r"others .* can write .*between;"):
        require_private(tmp_path / "first", "store")


def test_links_in_a_circle_are_refused(tmp_path: Path) -> None:
    tmp_path.joinpath("one").symlink_to("other")
    tmp_path.joinpath("other").symlink_to("one")
    with pytest.raises(ConfigurationError, match=r"store .*one: .*: Too many levels"):
        require_private(tmp_path / "one", "store")


def test_a_link_makes_a_directory_of_all_no_better(tmp_path: Path) -> None:
    tmp_path.joinpath("tmp").mkdir()
    tmp_path.joinpath("tmp").chmod(0o1777)
    tmp_path.joinpath("link").symlink_to("tmp")
    with pytest.raises(ConfigurationError, match="others"):
        require_private(tmp_path / "link", "store")


def test_what_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match=r"store .*none: No such file"):
        require_private(tmp_path / "none", "store")


@pytest.mark.root
def test_what_belongs_to_somebody_else_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "kek"
    file.touch(0o600)
    os.chown(file, 4321, 4321)
    with pytest.raises(ConfigurationError, match="belongs to uid 4321, who could replace it"):
        require_private(file, "key")


def test_a_listeners_directory_is_made_so_that_clients_can_reach_it(tmp_path: Path) -> None:
    before = os.umask(0o077)
    try:
        shared_folder(tmp_path / "run" / "sealcar" / "default")
    finally:
        os.umask(before)
    for name in ("run", "run/sealcar", "run/sealcar/default"):
        assert (tmp_path / name).stat().st_mode & 0o777 == 0o755


def test_a_directory_of_the_daemon_alone_is_closed_to_all_others(tmp_path: Path) -> None:
    (tmp_path / "state").mkdir(mode=0o755)
    own_folder(tmp_path / "state" / "inner")
    own_folder(tmp_path / "state")
    for name in ("state", "state/inner"):
        assert (tmp_path / name).stat().st_mode & 0o777 == 0o700


def test_a_socket_path_has_at_most_107_bytes(tmp_path: Path) -> None:
    room = 107 - len(os.fsencode(tmp_path)) - 1
    path = socket_path(tmp_path, "s" * room)
    listen(path, socket.SOCK_STREAM, 0o600, None).close()
    with pytest.raises(ConfigurationError, match="has at most 107 bytes, this one has 108"):
        socket_path(tmp_path, "s" * (room + 1))


def test_a_directory_has_one_daemon(tmp_path: Path) -> None:
    with sole_server(tmp_path):
        with pytest.raises(ResourceError, match=f"pid {os.getpid()}.*serves in"):
            sole_server(tmp_path).__enter__()
        (tmp_path / "inner").mkdir()
        with sole_server(tmp_path / "inner"):
            pass
    with sole_server(tmp_path):
        pass


def test_a_socket_has_the_mode_that_was_asked_for_and_replaces_a_stale_one(tmp_path: Path) -> None:
    path = tmp_path / "s.sock"
    for mode in (0o600, 0o666):
        listener = listen(path, socket.SOCK_STREAM, mode, os.getgid())
        assert path.stat().st_mode & 0o777 == mode
        with socket.socket(socket.AF_UNIX) as client:
            client.connect(str(path))
        listener.close()
    assert [file.name for file in tmp_path.iterdir()] == ["s.sock"]
