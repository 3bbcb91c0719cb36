"""Names of files in plain packages: every row of the reference helper's table that reads a name."""

from __future__ import annotations

import os
import socket
import stat
import threading
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from sealcar.errors import InvalidPackageError, NotFoundError, RequestError
from sealcar.ort.plain.files import FileReader
from sealcar.ort.plain.walking import Folder, open_real

if TYPE_CHECKING:
    from collections.abc import Iterator

CONTENT = b"weights"
SECRET = b"secret!"

INSIDE = (
    *("f", "./f", "sub/../f", "nodir/../f", "a/b/../../f", "sub/g", "sub//g", ".//sub/./g"),
    # what leaves and comes back is where it was
    *("../model/f", "sub/../../model/f", "../../top/model/f"),
    # links that stay inside, to a file and to a folder; absolute ones too
    *("link", "linked/g", "linked/../f", "absolute", "chain", "around"),
    # nobody can tell a hard link from a file
    "hard",
    # on this system these are characters like any other
    *("a\\b", "C:f", "ü"),
)
OUTSIDE = (
    *("..", "../x", "../secret", "sub/../../secret", "nodir/../../secret", "../model2/f"),
    *("out", "parent/secret", "dangling-out", "out-absolute", "proc", "null", "../model/../secret"),
)
NO_FILE = ("sub", "sub/", ".", "./", "sub/..", "f/", "f/.", "f/..", "f/g", "fifo", "socket")
MISSING = ("x", "sub/x", "nodir/x", "dangling", "nodir/../x")
NO_NAME = ("", "/", "/etc/passwd", "f\0", "\0", "f\0../secret")


@pytest.fixture
def folder(tmp_path: Path) -> Iterator[Folder]:
    """Give a folder with everything in it that a name can lead to, and a secret beside it."""
    top = tmp_path / "top"
    model = top / "model"
    for each in (model / "sub", model / "a" / "b", top / "model2"):
        each.mkdir(parents=True)
    for name in ("f", "sub/g", "a\\b", "C:f", "ü"):
        (model / name).write_bytes(CONTENT)
    (top / "secret").write_bytes(SECRET)
    (top / "model2" / "f").write_bytes(SECRET)
    os.link(model / "f", model / "hard")
    links = {
        "link": "f",
        "linked": "sub",
        "absolute": str(model / "sub" / "g"),
        "chain": "link",
        "around": "../model/link",
        "out": "../secret",
        "parent": "..",
        "out-absolute": str(top / "secret"),
        "dangling": "nothing",
        "dangling-out": "../nothing",
        "proc": "/proc/self/environ",
        "loop": "loop",
        "ring": "ring2",
        "ring2": "sub/../ring",
        "null": "/dev/null",
    }
    for name, target in links.items():
        (model / name).symlink_to(target)
    os.mkfifo(model / "fifo")
    with closing(socket.socket(socket.AF_UNIX)) as listener, closing_folder(model) as opened:
        listener.bind(str(model / "socket"))
        yield opened


def closing_folder(path: Path) -> closing[Folder]:
    return closing(Folder(str(path.resolve())))


def content(folder: Folder, name: str) -> bytes:
    """Return what is read by a name, and close what was opened for it."""
    descriptor = folder.open(name)
    try:
        return FileReader(descriptor).read()
    finally:
        os.close(descriptor)


@pytest.mark.parametrize("name", INSIDE)
def test_a_name_that_leads_inside_is_read(name: str, folder: Folder) -> None:
    assert content(folder, name) == CONTENT


@pytest.mark.parametrize("name", OUTSIDE)
def test_a_name_that_leads_outside_is_refused(name: str, folder: Folder) -> None:
    with pytest.raises(InvalidPackageError, match="leads out"):
        folder.open(name)


@pytest.mark.parametrize("name", NO_FILE)
def test_what_is_no_regular_file_is_refused_before_any_open(name: str, folder: Folder) -> None:
    with pytest.raises(InvalidPackageError, match=r"no regular file|no directory"):
        folder.open(name)


@pytest.mark.root
def test_a_device_is_refused_before_any_open(folder: Folder, tmp_path: Path) -> None:
    # of a kind that no driver answers for: to open it would be another error
    device = stat.S_IFCHR | 0o600, os.makedev(60, 0)
    os.mknod(tmp_path / "top" / "model" / "device", *device)
    with pytest.raises(InvalidPackageError, match="no regular file"):
        folder.open("device")


@pytest.mark.parametrize("name", MISSING)
def test_a_missing_file_is_not_found(name: str, folder: Folder) -> None:
    with pytest.raises(NotFoundError):
        folder.open(name)


@pytest.mark.parametrize("name", ["loop", "ring", "loop/f"])
def test_links_in_a_circle_are_refused(name: str, folder: Folder) -> None:
    with pytest.raises(InvalidPackageError, match="circle"):
        folder.open(name)


@pytest.mark.parametrize("name", NO_NAME)
def test_what_is_no_relative_name_is_refused_even_if_it_would_lead_inside(
    name: str, folder: Folder
) -> None:
    with pytest.raises(InvalidPackageError):
        folder.open(name)


def test_an_absolute_name_inside_is_refused(folder: Folder, tmp_path: Path) -> None:
    with pytest.raises(InvalidPackageError, match="absolute"):
        folder.open(str(tmp_path / "top" / "model" / "f"))


@pytest.mark.parametrize("name", ["n" * 256, "d/" * 3000 + "f", "\udcff"])
def test_names_that_the_system_does_not_take_end_in_an_error_of_ours(
    name: str, folder: Folder
) -> None:
    with pytest.raises(RequestError):
        folder.open(name)


def test_an_empty_file_is_empty(folder: Folder, tmp_path: Path) -> None:
    (tmp_path / "top" / "model" / "empty").touch()
    assert content(folder, "empty") == b""


def test_the_folder_itself_may_be_reached_through_a_link(tmp_path: Path) -> None:
    (tmp_path / "real").mkdir()
    (tmp_path / "real" / "f").write_bytes(CONTENT)
    (tmp_path / "link").symlink_to("real")
    with closing_folder(tmp_path / "link") as folder:
        assert content(folder, "f") == CONTENT
        # nothing is looked up from the top again
        (tmp_path / "link").unlink()
        assert content(folder, "f") == CONTENT


def test_a_path_that_was_real_and_has_become_a_link_is_not_followed(tmp_path: Path) -> None:
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "f").write_bytes(SECRET)
    (tmp_path / "model").symlink_to("other")
    with pytest.raises(InvalidPackageError, match="became a link"):
        Folder(str(tmp_path / "model"))
    with pytest.raises(InvalidPackageError, match="became a link"):
        open_real(str(tmp_path / "model" / "f"))


def test_a_file_that_is_swapped_all_the_time_never_gives_the_secret(tmp_path: Path) -> None:
    top = tmp_path.resolve()
    model = top / "model"
    (model / "sub").mkdir(parents=True)
    (model / "sub" / "f").write_bytes(CONTENT)
    (model / "own").write_bytes(CONTENT)
    (top / "secrets").mkdir()
    (top / "secrets" / "f").write_bytes(SECRET)
    over = threading.Event()

    def swap() -> None:
        turn = 0
        while not over.is_set():
            turn += 1
            # a file for a link, and a folder on the way for a link
            fresh = model / f"fresh{turn % 2}"
            if turn % 2:
                fresh.symlink_to("../secrets/f")
            else:
                fresh.write_bytes(CONTENT)
            fresh.replace(model / "f")
            (model / "sub").rename(model / "aside")
            (model / "sub").symlink_to("../secrets")
            (model / "sub").unlink()
            (model / "aside").rename(model / "sub")

    swapper = threading.Thread(target=swap)
    swapper.start()
    outcomes: dict[str, int] = {}
    try:
        with closing_folder(model) as folder:
            for turn in range(3000):
                name = ("f", "sub/f")[turn % 2]
                try:
                    outcome = content(folder, name).decode()
                except RequestError as error:
                    outcome = type(error).__name__
                outcomes[outcome] = outcomes.get(outcome, 0) + 1
    finally:
        over.set()
        swapper.join()
    assert SECRET.decode() not in outcomes
    # both states were met
    assert {CONTENT.decode(), "InvalidPackageError"} <= outcomes.keys()


PARTS = ("f", "sub", "g", "..", ".", "", "a", "b", "link", "linked", "chain", "around", "parent")
MORE_PARTS = ("out", "model", "model2", "secret", "top", "nodir", "absolute", "dangling", "fifo")
names = st.lists(st.sampled_from(PARTS + MORE_PARTS), min_size=1, max_size=7).map("/".join)


def outcome(folder: Folder, name: str) -> bytes | str:
    """Return what is read by a name, or why it isn't."""
    try:
        return content(folder, name)
    except RequestError as error:
        return error.message


@settings(max_examples=500, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(name=names)
def test_names_lead_where_the_system_says_they_do(
    folder: Folder, tmp_path: Path, name: str
) -> None:
    model = (tmp_path / "top" / "model").resolve()
    leads = Path(os.path.realpath(f"{model}/{name}"))
    found = outcome(folder, name)
    if isinstance(found, bytes):
        assert leads.is_relative_to(model)
        assert found == leads.read_bytes()
    elif "leads out" in found:
        assert not leads.is_relative_to(model)
    elif "doesn't exist" in found:
        assert not leads.exists()
        assert leads.is_relative_to(model)
    elif "no regular file" in found:
        assert not leads.is_file()
    else:
        # a file is used as a directory, or it's none that a model may have
        assert "no directory" in found or name.startswith("/") or not name


def test_descriptors_are_given_back(folder: Folder) -> None:
    def opened() -> int:
        return len(list(Path("/proc/self/fd").iterdir()))

    before = opened()
    for name in (*INSIDE, *OUTSIDE, *NO_FILE, *MISSING, *NO_NAME):
        try:
            os.close(folder.open(name))
        except RequestError:
            continue
    assert opened() == before
