"""The copies of a bucket's payloads in hands that aren't the daemon's: refused, or fetched anew."""

from __future__ import annotations

import os
import struct
from contextlib import contextmanager
from typing import TYPE_CHECKING

import pytest
from support.far_objects import MIB, FarObjects
from support.streams import seal

from sealcar.errors import NotAuthenticError, StorageError
from sealcar_server.sealing.derivation import PayloadKey
from sealcar_server.sealing.layout import SEGMENT
from sealcar_server.sealing.reader import SealedReader
from sealcar_server.sealing.scratch import Scratch
from sealcar_server.store.bucket.cache import Cache, name_of
from sealcar_server.store.bucket.fetching import Fetcher
from sealcar_server.store.directory import Directory

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from sealcar_server.sealing.writer import SealedSize

KEY = PayloadKey(bytes(range(32)), b"ad")
PLAIN = os.urandom(4 * SEGMENT + 100)
NAME = "0" * 64


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    made = tmp_path / "cache"
    made.mkdir(mode=0o700)
    return made


@contextmanager
def fetching(folder: Path, far: FarObjects, limit: int = 64 * MIB) -> Iterator[Fetcher]:
    with Fetcher(far, Cache(Directory.open(folder), limit), parallel=2) as made:
        yield made


@pytest.fixture
def sealed(tmp_path: Path) -> tuple[FarObjects, SealedSize]:
    """A sealed payload that is elsewhere."""
    far = FarObjects()
    size = seal(tmp_path / "sealed", KEY, PLAIN)
    far.take("o", (tmp_path / "sealed").read_bytes())
    return far, size


def read(fetcher: Fetcher, far: FarObjects, sealed: SealedSize) -> bytes:
    scratch = Scratch()
    with SealedReader(
        fetcher.open("o", *far.size("o")),
        KEY,
        commitment=sealed.commitment,
        plain_size=sealed.plain_size,
        scratch=scratch,
    ) as reader:
        parts = []
        for index in range(reader.layout.count):
            span = reader.read_segment(index, scratch)
            parts.append(bytes(scratch.plain[: span.plain_size]))
        return b"".join(parts)


@pytest.mark.parametrize("size", [(64 << 40) + 1, 1 << 60, (1 << 64) - 1])
def test_a_size_that_no_object_has_takes_no_memory(folder: Path, size: int) -> None:
    class Liar(FarObjects):
        def size(self, key: str) -> tuple[int, str]:
            return size, f"another {key}"

    far = Liar()
    with fetching(folder, far) as fetcher:
        with pytest.raises(NotAuthenticError, match="none is so large"):
            fetcher.open("o", size, "one")
        file = fetcher.open("o", *far.put("o", 5))
        assert file.doubt(0, 5)
        with pytest.raises(NotAuthenticError, match="none is so large"):
            file.size()
        file.close()


@pytest.mark.parametrize("mode", [0o770, 0o707, 0o777, 0o1777])
def test_a_directory_that_others_can_write_to_is_no_cache(folder: Path, mode: int) -> None:
    folder.chmod(mode)
    with pytest.raises(NotAuthenticError, match="0700"):
        Cache(Directory.open(folder), MIB)


def _link(path: Path) -> None:
    (path.parent.parent / "elsewhere").write_bytes(b"somebody's")
    path.symlink_to(path.parent.parent / "elsewhere")


def _second_name(path: Path) -> None:
    (path.parent.parent / "elsewhere").touch(0o600)
    os.link(path.parent.parent / "elsewhere", path)


STRANGE: dict[str, Callable[[Path], None]] = {
    "link": _link,
    "second name": _second_name,
    "fifo": lambda path: os.mkfifo(path, 0o600),
    "directory": lambda path: path.mkdir(0o700),
    "open to others": lambda path: path.touch(0o644),
}


@pytest.mark.parametrize("what", STRANGE)
def test_what_no_cache_has_is_refused_at_the_start(folder: Path, what: str) -> None:
    STRANGE[what](folder / NAME)
    with pytest.raises(NotAuthenticError, match="no file of a cache: empty its directory"):
        Cache(Directory.open(folder), MIB)
    assert os.path.lexists(folder / NAME), "and left for whoever looks into it"


def test_another_name_is_refused_at_the_start(folder: Path) -> None:
    (folder / "notes.txt").touch(0o600)
    with pytest.raises(NotAuthenticError, match="notes"):
        Cache(Directory.open(folder), MIB)


@pytest.mark.parametrize("what", STRANGE)
def test_what_no_cache_has_is_refused_when_it_appears_later(
    folder: Path, sealed: tuple[FarObjects, SealedSize], what: str
) -> None:
    far, size = sealed
    with fetching(folder, far) as fetcher:
        length, etag = far.size("o")
        STRANGE[what](folder / name_of("o", etag, length))
        with pytest.raises((NotAuthenticError, StorageError)):
            read(fetcher, far, size)
    elsewhere = folder.parent / "elsewhere"
    assert not elsewhere.exists() or elsewhere.read_bytes() in {b"", b"somebody's"}


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"garbage",
        struct.pack("<8sQ", b"sealcar1", 1 << 62),
        struct.pack("<8sQ", b"sealcar1", 5 * MIB) + b"\1" * 5,
        struct.pack("<8sQ", b"sealcar1", 0) + b"\xff" * 8192,
        struct.pack("<8sQ", b"another1", 5) + b"\1" * 8192,
    ],
)
def test_a_file_that_says_anything_at_all_is_taken_for_nothing_that_it_isnt(
    folder: Path, sealed: tuple[FarObjects, SealedSize], content: bytes
) -> None:
    far, size = sealed
    length, etag = far.size("o")
    for name in (NAME, name_of("o", etag, length)):
        path = folder / name
        path.write_bytes(content)
        path.chmod(0o600)
    with fetching(folder, far) as fetcher:
        assert read(fetcher, far, size) == PLAIN


def test_a_copy_that_claims_all_and_has_nothing_is_fetched_piece_by_piece(
    folder: Path, sealed: tuple[FarObjects, SealedSize]
) -> None:
    far, size = sealed
    with fetching(folder, far) as fetcher:
        assert read(fetcher, far, size) == PLAIN
    (path,) = folder.iterdir()
    whole = path.stat().st_size
    with path.open("r+b") as file:
        file.truncate(4096)
        file.truncate(whole)
    far.asked.clear()
    with fetching(folder, far) as fetcher:
        assert read(fetcher, far, size) == PLAIN
    assert sum(length for _, _, length in far.asked) <= far.size("o")[0] + MIB


def test_a_copy_of_another_object_under_this_name_isnt_served(
    folder: Path, sealed: tuple[FarObjects, SealedSize], tmp_path: Path
) -> None:
    far, size = sealed
    seal(tmp_path / "other", KEY, bytes(len(PLAIN)))
    far.take("other", (tmp_path / "other").read_bytes())
    with fetching(folder, far) as fetcher:
        for key in ("o", "other"):
            file = fetcher.open(key, *far.size(key))
            data = bytearray(MIB)
            for at in range(0, 4 * MIB, MIB):
                file.read(memoryview(data), at)
            file.close()
    names = [folder / name_of(key, far.size(key)[1], far.size(key)[0]) for key in ("o", "other")]
    names[1].replace(names[0])
    with fetching(folder, far) as fetcher:
        assert read(fetcher, far, size) == PLAIN


def test_what_is_changed_while_it_is_read_is_never_served(
    folder: Path, sealed: tuple[FarObjects, SealedSize]
) -> None:
    far, size = sealed
    scratch = Scratch()
    with fetching(folder, far) as fetcher:
        assert read(fetcher, far, size) == PLAIN
        (path,) = folder.iterdir()
        with SealedReader(
            fetcher.open("o", *far.size("o")),
            KEY,
            commitment=size.commitment,
            plain_size=size.plain_size,
            scratch=scratch,
        ) as reader:
            for index in range(reader.layout.count):
                span = reader.layout.span(index)
                with path.open("r+b") as file:
                    file.seek(4096 + span.at)
                    file.write(os.urandom(50))
                reader.read_segment(index, scratch)
                assert (
                    scratch.plain[: span.plain_size]
                    == PLAIN[span.plain_at : span.plain_at + span.plain_size]
                )
