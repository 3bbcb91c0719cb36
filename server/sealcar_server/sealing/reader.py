"""Reads a sealed payload, more strictly than Tink does.

Order of checks: the file's size against the record, the header, the commitment, the last segment;
then any segment, in any order, from any thread. The file is read with preadv, never mapped: a file
that is cut under a mapping would kill the process.
"""

from __future__ import annotations

import hmac
import os
import time
from typing import TYPE_CHECKING, Final

from cryptography.exceptions import InvalidTag

from sealcar.closing import Closing
from sealcar.errors import NotAuthenticError, Place, StorageError, TruncatedError
from sealcar_server.sealing.descriptor import Descriptor
from sealcar_server.sealing.layout import Layout, Span
from sealcar_server.sealing.stream import StreamCipher

if TYPE_CHECKING:
    from sealcar_server.sealing.derivation import PayloadKey
    from sealcar_server.sealing.scratch import Scratch

# what is read and decrypted once: opening checks all that there is
SMALL: Final = 64_000


class SealedReader(Closing):
    """One sealed payload, open for reading. Thread-safe.

    Args:
        fd: of the sealed file. It belongs to the reader from now on, and is closed if this fails.
        key: of the payload.
        commitment: of the record.
        plain_size: of the record.
        scratch: where the last segment is checked.
        at_once: all of it is read next: so the only segment of a payload that isn't small is
            checked then, and not now too.

    Attributes:
        layout: of the file.
        whole: all of a payload that is small, from that check; else None.

    Raises:
        TruncatedError: the file is shorter or longer than the record says.
        NotAuthenticError: it isn't the stream that the record names.
        StorageError: it can't be read.
    """

    layout: Layout
    whole: bytes | None

    def __init__(
        self,
        fd: int,
        key: PayloadKey,
        *,
        commitment: bytes,
        plain_size: int,
        scratch: Scratch,
        at_once: bool = False,
    ) -> None:
        self._file = Descriptor(fd)
        self._failure: NotAuthenticError | TruncatedError | None = None
        try:
            self.layout = _layout(fd, key, plain_size)
            self._cipher = _committed(fd, key, commitment)
            self.whole = None
            only = self.layout.count == 1
            if not (only and at_once and plain_size > SMALL):
                self.read_segment(self.layout.count - 1, scratch)
                small = only and plain_size <= SMALL
                self.whole = bytes(scratch.plain[:plain_size]) if small else None
        except BaseException:
            self.close()
            raise

    def read_segment(self, index: int, scratch: Scratch) -> Span:
        """Leave one segment's authentic plaintext in `scratch.plain`, and return its place.

        After the first failure every read fails: no part of a damaged payload is served.

        Raises:
            NotAuthenticError: the segment isn't authentic; the scratch is wiped.
            TruncatedError: the file was cut; the scratch is wiped.
            StorageError: the file can't be read; the scratch is wiped.
            WrongStateError: the reader is closed.
        """
        span = self.layout.span(index)
        if self._failure:
            raise type(self._failure)(self._failure.message, place=self._failure.place)
        try:
            self._open(index, span, scratch)
        except (NotAuthenticError, TruncatedError) as error:
            scratch.wipe()
            self._failure = error
            raise
        except BaseException:
            scratch.wipe()
            raise
        return span

    def read_ahead(self, index: int, scratch: Scratch) -> Span:
        """Have one segment in the page cache when this returns; nothing of it is looked at.

        It is read: of what is only announced, the kernel fetches no more than fits its window.

        Raises:
            TruncatedError: the file was cut.
            StorageError: it can't be read.
            WrongStateError: the reader is closed.
        """
        span = self.layout.span(index)
        with self._file as fd:
            _read(fd, scratch.plain[: span.size], span.at)
        return span

    def _open(self, index: int, span: Span, scratch: Scratch) -> None:
        sealed = scratch.plain[: span.size]
        place = Place(phase="authenticate", offset=span.plain_at, length=span.plain_size)
        begun = time.perf_counter()
        try:
            with self._file as fd:
                _read(fd, sealed, span.at)
            read = time.perf_counter()
            last = index == self.layout.count - 1
            self._cipher.open(index, sealed, sealed[: span.plain_size], last=last)
            scratch.read_seconds = read - begun
            scratch.open_seconds = time.perf_counter() - read
        except InvalidTag:
            raise NotAuthenticError("the segment isn't authentic", place=place) from None
        except TruncatedError as error:
            raise error.at(offset=place.offset, length=place.length) from None

    def close(self) -> None:
        """Close the file, after the reads that are under way. Repeating it is fine."""
        self._file.close()


def _layout(fd: int, key: PayloadKey, plain_size: int) -> Layout:
    try:
        size = os.fstat(fd).st_size
    except OSError as error:
        raise StorageError(f"the sealed file can't be read: {error.strerror}") from error
    found = Layout.of_file(size, key.params)
    if found.plain_size != plain_size:
        raise TruncatedError(
            f"the sealed file holds {found.plain_size} bytes, its record says {plain_size}"
        )
    return found


def _committed(fd: int, key: PayloadKey, commitment: bytes) -> StreamCipher:
    buffer = bytearray(key.params.header)
    _read(fd, memoryview(buffer), 0)
    header = bytes(buffer)
    cipher = StreamCipher(key, header)
    if not hmac.compare_digest(key.commitment(header), commitment):
        raise NotAuthenticError("it isn't the stream that the seal record commits to")
    return cipher


def _read(fd: int, target: memoryview, at: int) -> None:
    done = 0
    while done < len(target):
        try:
            got = os.preadv(fd, [target[done:]], at + done)
        except OSError as error:
            raise StorageError(f"the sealed file can't be read: {error.strerror}") from error
        if got == 0:
            raise TruncatedError("the sealed file ends too early", place=Place(phase="read"))
        done += got
