"""The hash of a directory: what counts, what doesn't, and what can't be hashed."""

from __future__ import annotations

import hashlib
import os
import socket
import threading
from pathlib import Path

import pytest

from sealcar import modelpackage
from sealcar.modelpackage import LimitError, Limits, MissingError, SchemaError, hash_directory

EMPTY = "sha256:e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"


def fill(root: Path, files: dict[str, bytes]) -> Path:
    for name, data in files.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_bytes(data)
    return root


def expected(files: dict[bytes, bytes]) -> str:
    lines = b"".join(
        hashlib.sha256(data).hexdigest().encode() + b"  " + name + b"\n"
        for name, data in sorted(files.items())
    )
    return f"sha256:{hashlib.sha256(lines).hexdigest()}"


def opened() -> list[str]:
    open_now = Path("/proc/self/fd").iterdir()
    return sorted(str(item.readlink()) for item in open_now if item.is_symlink())


def test_an_empty_tree_has_the_hash_of_nothing(tmp_path: Path) -> None:
    (tmp_path / "empty" / "deep").mkdir(parents=True)
    assert hash_directory(tmp_path) == EMPTY


def test_names_that_are_no_text_count_by_their_bytes(tmp_path: Path) -> None:
    names = {b"a\nb": b"1", b"\xff\xfe": b"2", b"a/b": b"3", b"a-b": b"4", b"a0": b"5"}
    os.mkdir(os.path.join(os.fsencode(tmp_path), b"a"))  # noqa: PTH102, PTH118  (names in bytes)
    for name, data in names.items():
        with open(os.path.join(os.fsencode(tmp_path), name), "wb") as stream:  # noqa: PTH118, PTH123  (the same)
            stream.write(data)
    assert hash_directory(tmp_path) == expected(names)


def test_modes_and_times_do_not_count(tmp_path: Path) -> None:
    fill(tmp_path, {"a": b"x"})
    before = hash_directory(tmp_path)
    (tmp_path / "a").chmod(0o755)
    os.utime(tmp_path / "a", (0, 0))
    assert hash_directory(tmp_path) == before


@pytest.mark.parametrize("workers", [1, 2, 7])
def test_large_files_hash_the_same_over_any_number_of_threads(tmp_path: Path, workers: int) -> None:
    files = {f"d{n % 3}/f{n}": bytes([n]) * (n * 150_000) for n in range(12)}
    fill(tmp_path, files)
    found = hash_directory(tmp_path, workers=workers)
    assert found == expected({name.encode(): data for name, data in files.items()})


def test_progress_counts_every_file_and_byte_and_never_goes_back(tmp_path: Path) -> None:
    fill(tmp_path, {f"f{n}": bytes(n * 500_000) for n in range(6)})
    seen: list[tuple[int, int]] = []
    hash_directory(tmp_path, progress=lambda files, size: seen.append((files, size)))
    assert seen[-1] == (6, 15 * 500_000)
    assert seen == sorted(seen)


def test_what_the_progress_callback_raises_ends_the_hash_and_leaves_nothing_open(
    tmp_path: Path,
) -> None:
    fill(tmp_path, {f"f{n}": bytes(3 << 20) for n in range(9)})
    before = opened(), threading.active_count()

    def stop(files: int, size: int) -> None:
        del files
        if size > 4 << 20:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        hash_directory(tmp_path, workers=3, progress=stop)
    assert (opened(), threading.active_count()) == before


def test_a_link_to_the_directory_is_followed_but_none_in_it(tmp_path: Path) -> None:
    tree = fill(tmp_path / "tree", {"a": b"x"})
    (tmp_path / "link").symlink_to("tree")
    assert hash_directory(tmp_path / "link") == hash_directory(tree)
    (tree / "b").symlink_to("a")
    with pytest.raises(SchemaError, match="link"):
        hash_directory(tree)


def test_a_link_loop_and_a_dangling_link_are_links_too(tmp_path: Path) -> None:
    for target in ("loop", "nowhere", "."):
        (tmp_path / "loop").symlink_to(target)
        with pytest.raises(SchemaError, match="link"):
            hash_directory(tmp_path)
        (tmp_path / "loop").unlink()


def test_special_files_are_refused_without_opening_them(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "fifo")
    with pytest.raises(SchemaError):
        hash_directory(tmp_path)
    (tmp_path / "fifo").unlink()
    with socket.socket(socket.AF_UNIX) as made:
        made.bind(str(tmp_path / "s"))
        with pytest.raises(SchemaError):
            hash_directory(tmp_path)


@pytest.mark.parametrize("name", ["nowhere", "file", "a\0b"])
def test_what_is_no_directory_has_no_hash(tmp_path: Path, name: str) -> None:
    (tmp_path / "file").write_text("x")
    with pytest.raises(MissingError):
        hash_directory(tmp_path / name)


def test_an_empty_path_names_nothing() -> None:
    with pytest.raises(modelpackage.FileAccessError):
        hash_directory("")


def test_a_tree_over_the_limits_is_refused(tmp_path: Path) -> None:
    fill(tmp_path, {f"d/e/f{n}": b"" for n in range(5)})
    with pytest.raises(LimitError):
        hash_directory(tmp_path, limits=Limits(tree_entries=6))
    with pytest.raises(LimitError):
        hash_directory(tmp_path, limits=Limits(tree_depth=2))
    hash_directory(tmp_path, limits=Limits(tree_entries=7, tree_depth=3))
