"""The strict reader and the writer, attacked through files."""

from __future__ import annotations

import errno
import os
import threading
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Final

import pytest
from support.streams import opened, seal, unrecorded, unseal

from sealcar.errors import (
    DamagedError,
    ExhaustedError,
    InvalidRequestError,
    NotAuthenticError,
    StorageError,
    TruncatedError,
    WrongStateError,
)
from sealcar_server.sealing.derivation import PayloadKey
from sealcar_server.sealing.descriptor import Descriptor
from sealcar_server.sealing.layout import FIRST_PIECE, PIECE, SEGMENT, Layout
from sealcar_server.sealing.reader import SMALL
from sealcar_server.sealing.scratch import Scratch
from sealcar_server.sealing.sealed_file import LocalFile
from sealcar_server.sealing.stream import fresh_header
from sealcar_server.sealing.writer import SealedSize, SealedWriter

if TYPE_CHECKING:
    from collections.abc import Iterator

KEY: Final = PayloadKey(b"k" * 32, b"associated data")
SIZE: Final = FIRST_PIECE + 2 * PIECE + 1000


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "sealed"


@pytest.fixture
def plain() -> bytes:
    return os.urandom(SIZE)


@pytest.fixture
def sealed(path: Path, plain: bytes) -> SealedSize:
    return seal(path, KEY, plain)


@pytest.fixture
def writer(path: Path) -> Iterator[SealedWriter]:
    fd = os.open(path, os.O_WRONLY | os.O_CREAT, 0o600)
    with SealedWriter(fd, KEY) as made:
        yield made


def overwrite(path: Path, at: int, data: bytes) -> None:
    with path.open("r+b") as file:
        file.seek(at)
        file.write(data)


def flip(path: Path, at: int) -> None:
    byte = path.read_bytes()[at]
    overwrite(path, at, bytes([byte ^ 1]))


def test_a_sealed_file_reads_back_and_holds_no_plaintext(
    path: Path, plain: bytes, sealed: SealedSize
) -> None:
    assert unseal(path, KEY, sealed) == plain
    assert plain[500_000:500_016] not in path.read_bytes()


@pytest.mark.parametrize("size", [-1, 1 - SIZE, 1, SEGMENT])
def test_a_file_of_another_size_is_refused_before_any_byte_is_visible(
    size: int, path: Path, sealed: SealedSize
) -> None:
    os.truncate(path, path.stat().st_size + size)
    scratch = Scratch()
    with pytest.raises(DamagedError):
        opened(path, KEY, sealed, scratch)
    assert not any(scratch.plain)


def test_a_genuine_stream_of_another_size_is_refused_with_both_sizes(
    path: Path, sealed: SealedSize
) -> None:
    with pytest.raises(TruncatedError, match=f"holds {SIZE} bytes, its record says {SIZE - 1}"):
        opened(path, KEY, replace_size(sealed, SIZE - 1))


@pytest.mark.parametrize("size", [-1, 1 << 60, (1 << 63) - 1])
def test_a_size_that_no_stream_has_is_damage_and_not_the_callers_fault(
    size: int, path: Path, sealed: SealedSize
) -> None:
    with pytest.raises(DamagedError):
        opened(path, KEY, replace_size(sealed, size))


def replace_size(sealed: SealedSize, size: int) -> SealedSize:
    return sealed._replace(plain_size=size)


def test_another_genuine_stream_of_the_same_payload_is_refused(
    path: Path, plain: bytes, sealed: SealedSize
) -> None:
    again = seal(path, KEY, plain)
    assert again.commitment != sealed.commitment
    with pytest.raises(NotAuthenticError, match="commits to"):
        opened(path, KEY, sealed)


@pytest.mark.parametrize("key", [replace(KEY, key=b"x" * 32), replace(KEY, associated_data=b"x")])
def test_a_payload_under_another_name_or_key_is_refused(
    key: PayloadKey, path: Path, sealed: SealedSize
) -> None:
    with pytest.raises(NotAuthenticError, match="commits to"):
        opened(path, key, sealed)
    with pytest.raises(NotAuthenticError, match="segment isn't authentic"):
        opened(path, key, unrecorded(path, key))


@pytest.mark.parametrize("at", [0, 1, 39])
def test_a_changed_header_is_refused(at: int, path: Path, sealed: SealedSize) -> None:
    flip(path, at)
    with pytest.raises(NotAuthenticError):
        opened(path, KEY, sealed)


def test_a_forged_last_segment_is_found_at_opening_and_leaves_nothing(
    path: Path, sealed: SealedSize
) -> None:
    flip(path, path.stat().st_size - 500)
    scratch = Scratch()
    with pytest.raises(NotAuthenticError) as caught:
        opened(path, KEY, sealed, scratch)
    assert (caught.value.place.offset, caught.value.place.length) == (SIZE - 1000, 1000)
    assert not any(scratch.plain)


@pytest.mark.parametrize("size", [SMALL + 1, FIRST_PIECE])
def test_the_only_segment_of_what_is_read_at_once_is_checked_once_and_then(
    size: int, path: Path
) -> None:
    sealed, scratch = seal(path, KEY, os.urandom(size)), Scratch()
    with opened(path, KEY, sealed, scratch, at_once=True) as reader:
        assert (scratch.open_seconds, reader.whole) == (0.0, None)
    flip(path, path.stat().st_size - 500)
    with (
        opened(path, KEY, sealed, scratch, at_once=True) as reader,
        pytest.raises(NotAuthenticError),
    ):
        reader.read_segment(0, scratch)
    assert not any(scratch.plain)


@pytest.mark.parametrize("size", [SMALL, SIZE])
def test_all_else_that_is_read_at_once_is_checked_when_it_is_opened(size: int, path: Path) -> None:
    sealed = seal(path, KEY, os.urandom(size))
    flip(path, path.stat().st_size - 500)
    with pytest.raises(NotAuthenticError):
        opened(path, KEY, sealed, at_once=True)


@pytest.mark.parametrize("index", [0, 1, 2])
def test_a_forged_segment_leaves_the_scratch_wiped_and_ends_the_payload(
    index: int, path: Path, sealed: SealedSize
) -> None:
    scratch = Scratch()
    with opened(path, KEY, sealed, scratch) as reader:
        flip(path, reader.layout.span(index).at + 5)
        with pytest.raises(NotAuthenticError, match="segment") as caught:
            reader.read_segment(index, scratch)
        assert caught.value.place.offset == reader.layout.span(index).plain_at
        assert not any(scratch.plain)
        with pytest.raises(NotAuthenticError, match="segment"):
            reader.read_segment((index + 1) % 3, scratch)
        assert not any(scratch.plain)


def test_swapped_segments_are_refused(path: Path, sealed: SealedSize) -> None:
    data = path.read_bytes()
    overwrite(path, SEGMENT, data[2 * SEGMENT : 3 * SEGMENT] + data[SEGMENT : 2 * SEGMENT])
    with opened(path, KEY, sealed) as reader, pytest.raises(NotAuthenticError):
        reader.read_segment(1, Scratch())


def test_a_file_cut_while_it_is_read_is_refused_as_truncated(
    path: Path, sealed: SealedSize
) -> None:
    scratch = Scratch()
    with opened(path, KEY, sealed, scratch) as reader:
        os.truncate(path, SEGMENT + 7)
        with pytest.raises(TruncatedError) as caught:
            reader.read_segment(1, scratch)
    assert caught.value.place.offset == FIRST_PIECE
    assert not any(scratch.plain)


def test_a_reader_that_fails_to_open_closes_its_file(path: Path, sealed: SealedSize) -> None:
    flip(path, 0)
    fd = os.open(path, os.O_RDONLY)
    os.close(fd)
    with pytest.raises(NotAuthenticError):
        opened(path, KEY, sealed)
    with pytest.raises(OSError, match="Bad file descriptor"):
        os.fstat(fd)


def test_a_file_that_can_t_be_read_is_a_storage_error(path: Path, sealed: SealedSize) -> None:
    with opened(path, KEY, sealed) as reader:
        fd = os.open(path.parent, os.O_RDONLY)
        assert isinstance(reader._file, LocalFile)
        with reader._file._file as number:
            os.dup2(fd, number)
        os.close(fd)
        with pytest.raises(StorageError, match="directory"):
            reader.read_segment(0, Scratch())


def test_eight_threads_read_one_stream_at_once(
    path: Path, plain: bytes, sealed: SealedSize
) -> None:
    local = threading.local()

    def check(index: int) -> bool:
        scratch: Scratch = local.__dict__.setdefault("scratch", Scratch())
        span = reader.read_segment(index, scratch)
        end = span.plain_at + span.plain_size
        return bytes(scratch.plain[: span.plain_size]) == plain[span.plain_at : end]

    with opened(path, KEY, sealed) as reader, ThreadPoolExecutor(8) as pool:
        assert all(pool.map(check, list(range(reader.layout.count)) * 10))


def test_eight_threads_seal_one_stream_at_once(path: Path, writer: SealedWriter) -> None:
    plain = os.urandom(FIRST_PIECE + 20 * PIECE + 5)
    layout = Layout.of_plain(len(plain))

    def seal_one(index: int) -> None:
        scratch, span = Scratch(), layout.span(index)
        scratch.plain[: span.plain_size] = plain[span.plain_at : span.plain_at + span.plain_size]
        writer.seal_segment(index, scratch, span.plain_size, last=index == layout.count - 1)

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(seal_one, reversed(range(layout.count))))
    assert unseal(path, KEY, writer.finish()) == plain


def test_a_segment_is_sealed_once_even_when_two_threads_try(writer: SealedWriter) -> None:
    def attempt(_: int) -> bool:
        try:
            writer.seal_segment(0, Scratch(), FIRST_PIECE, last=False)
        except WrongStateError:
            return False
        return True

    with ThreadPoolExecutor(8) as pool:
        assert sum(pool.map(attempt, range(8))) == 1


@pytest.mark.parametrize(
    ("index", "size", "last"),
    [
        (0, FIRST_PIECE - 1, False),
        (0, FIRST_PIECE + 1, True),
        (1, PIECE + 1, False),
        (1, 0, True),
        (-1, PIECE, False),
        (1 << 32, 1, True),
    ],
)
def test_a_segment_of_an_impossible_size_is_refused(
    index: int,
    size: int,
    last: bool,  # noqa: FBT001  (a column of the table)
    writer: SealedWriter,
) -> None:
    with pytest.raises(InvalidRequestError):
        writer.seal_segment(index, Scratch(), size, last=last)


def test_nothing_is_sealed_past_the_last_segment(writer: SealedWriter) -> None:
    scratch = Scratch()
    writer.seal_segment(2, scratch, 5, last=True)
    for index, last in ((2, True), (3, True), (1, True)):
        with pytest.raises(WrongStateError):
            writer.seal_segment(index, scratch, 5, last=last)
    with pytest.raises(WrongStateError):
        writer.seal_segment(3, scratch, PIECE, last=False)


def test_the_last_segment_is_never_before_a_sealed_one(writer: SealedWriter) -> None:
    scratch = Scratch()
    writer.seal_segment(2, scratch, PIECE, last=False)
    with pytest.raises(WrongStateError):
        writer.seal_segment(1, scratch, 5, last=True)


def test_a_payload_with_a_hole_is_never_finished(writer: SealedWriter) -> None:
    scratch = Scratch()
    with pytest.raises(WrongStateError, match="missing"):
        writer.finish()
    writer.seal_segment(2, scratch, 5, last=True)
    writer.seal_segment(0, scratch, FIRST_PIECE, last=False)
    with pytest.raises(WrongStateError, match="missing"):
        writer.finish()
    writer.seal_segment(1, scratch, PIECE, last=False)
    assert writer.finish().plain_size == FIRST_PIECE + PIECE + 5


def test_a_full_disk_is_named_as_such() -> None:
    fd = os.open("/dev/full", os.O_WRONLY)
    with pytest.raises(ExhaustedError, match=os.strerror(errno.ENOSPC)):
        SealedWriter(fd, KEY)
    with pytest.raises(OSError, match="Bad file descriptor"):
        os.fstat(fd)


def test_a_file_that_can_t_be_written_is_a_storage_error(path: Path) -> None:
    path.touch()
    with pytest.raises(StorageError, match="Bad file descriptor"):
        SealedWriter(os.open(path, os.O_RDONLY), KEY)


def test_two_streams_of_one_payload_share_no_header(path: Path, plain: bytes) -> None:
    seal(path, KEY, plain[:10])
    header = path.read_bytes()[:40]
    seal(path, KEY, plain[:10])
    assert header[1:] != path.read_bytes()[1:40]


def test_a_scratch_lies_in_one_huge_page_and_is_wiped_whole() -> None:
    scratch = Scratch()
    assert scratch.address_of_plain % (2 << 20) == 0
    assert len(scratch.plain) == len(scratch.sealed) == SEGMENT
    scratch.plain[-1] = scratch.sealed[0] = scratch.sealed[-1] = 1
    scratch.wipe()
    assert not any(scratch.plain)
    assert not any(scratch.sealed)


def test_a_closed_reader_or_writer_refuses(path: Path, sealed: SealedSize) -> None:
    reader, scratch = opened(path, KEY, sealed), Scratch()
    reader.close()
    reader.close()
    with pytest.raises(WrongStateError, match="closed"):
        reader.read_segment(0, scratch)
    writer = SealedWriter(os.open(path, os.O_WRONLY), KEY)
    writer.close()
    with pytest.raises(WrongStateError, match="closed"):
        writer.seal_segment(0, scratch, 1, last=True)


def test_a_descriptor_stays_open_until_its_last_user_is_done(path: Path) -> None:
    path.touch()
    descriptor = Descriptor(os.open(path, os.O_RDONLY))
    with descriptor as fd:
        with descriptor:
            descriptor.close()
        os.fstat(fd)
    with pytest.raises(OSError, match="Bad file descriptor"):
        os.fstat(fd)


def test_forked_sealers_never_begin_two_streams_alike() -> None:
    reading, writing = os.pipe()
    made = [fresh_header(KEY.params)]
    for _ in range(8):
        if os.fork() == 0:
            for _ in range(20):
                os.write(writing, fresh_header(KEY.params))
            os._exit(0)
    os.close(writing)
    with os.fdopen(reading, "rb") as headers:
        while header := headers.read(KEY.params.header):
            made.append(header)
    ends = [os.wait()[1] for _ in range(8)]
    assert ends == [0] * 8
    assert len(made) == len({header[1:] for header in made}) == 161


def bytes_read() -> int:
    return int(Path("/proc/self/io").read_text().split()[1])


def test_what_is_read_ahead_is_all_read_whatever_the_kernels_window(
    path: Path, sealed: SealedSize
) -> None:
    with opened(path, KEY, sealed) as reader:
        before = bytes_read()
        spans = [reader.read_ahead(index, Scratch()) for index in range(reader.layout.count)]
        assert bytes_read() - before >= path.stat().st_size
    assert sum(span.size for span in spans) + KEY.params.header == path.stat().st_size


def test_a_file_that_is_cut_under_its_reader_is_noticed_when_it_is_read_ahead(
    path: Path, sealed: SealedSize
) -> None:
    with opened(path, KEY, sealed) as reader:
        os.truncate(path, path.stat().st_size - 1)
        with pytest.raises(TruncatedError):
            reader.read_ahead(reader.layout.count - 1, Scratch())
