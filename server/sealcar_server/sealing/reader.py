"""Reads a sealed payload, more strictly than Tink does.

Order of checks: the file's size against the record, the header, the commitment, the last segment;
then any segment, in any order, from any thread. What isn't authentic and was a copy of something
else is fetched and read once more.
"""

from __future__ import annotations

import hmac
import time
from typing import TYPE_CHECKING, Final

from cryptography.exceptions import InvalidTag

from sealcar.closing import Closing
from sealcar.errors import NotAuthenticError, Place, TruncatedError
from sealcar_server.sealing.layout import Layout, Span
from sealcar_server.sealing.stream import StreamCipher

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable

    from sealcar_server.sealing.derivation import PayloadKey
    from sealcar_server.sealing.scratch import Scratch
    from sealcar_server.sealing.sealed_file import SealedFile

# what is read and decrypted once: opening checks all that there is
SMALL: Final = 64_000


class SealedReader(Closing):
    """One sealed payload, open for reading. Thread-safe.

    Args:
        file: the sealed file. It belongs to the reader from now on, and is closed if this fails.
        key: of the payload.
        commitment: of the record.
        plain_size: of the record.
        scratch: where the last segment is checked.
        at_once: all of it is read next: so the only segment of a payload that isn't small is
            checked then, and not now too.

    Attributes:
        layout: of the file.
        waits: whether reading may have to wait for something slower than a disk.
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
        file: SealedFile,
        key: PayloadKey,
        *,
        commitment: bytes,
        plain_size: int,
        scratch: Scratch,
        at_once: bool = False,
    ) -> None:
        self._file = file
        self.waits: Final = file.waits
        self._failure: NotAuthenticError | TruncatedError | None = None
        self.whole = None
        try:
            try:
                self._begin(key, commitment, plain_size)
                self._check_end(scratch, at_once=at_once)
            except (NotAuthenticError, TruncatedError):
                # perhaps there is another file by now
                if not file.doubt(0, key.params.header):
                    raise
                self._failure = None
                self._begin(key, commitment, plain_size)
                self._check_end(scratch, at_once=at_once)
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
        self._refuse_if_failed()
        try:
            try:
                self._open(index, span, scratch)
            except (NotAuthenticError, TruncatedError):
                if not self._file.doubt(span.at, span.size):
                    raise
                self._open(index, span, scratch)
        except BaseException as error:
            self._failed(error, scratch)
            raise
        return span

    def segment_if_here(
        self, index: int, scratch: Scratch, then: Callable[[], None], owner: Hashable
    ) -> Span | None:
        """Read a segment as `read_segment` does, without waiting for what isn't here yet.

        Args:
            index: as there.
            scratch: as there.
            then: called once if None is returned, as soon as it is worth another try.
            owner: for whom it is fetched.
        """
        span = self.layout.span(index)
        self._refuse_if_failed()
        if not self._file.ready(span.at, span.size, then, owner):
            return None
        try:
            self._open(index, span, scratch)
        except (NotAuthenticError, TruncatedError) as error:
            if not self._file.doubt(span.at, span.size):
                self._failed(error, scratch)
                raise
        except BaseException as error:
            self._failed(error, scratch)
            raise
        else:
            return span
        scratch.wipe()
        return self.segment_if_here(index, scratch, then, owner)

    def read_ahead(self, index: int, scratch: Scratch) -> Span:
        """Have one segment in the page cache when this returns; nothing of it is looked at.

        It is read: of what is only announced, the kernel fetches no more than fits its window.

        Raises:
            TruncatedError: the file was cut.
            StorageError: it can't be read.
            WrongStateError: the reader is closed.
        """
        span = self.layout.span(index)
        self._file.read(scratch.plain[: span.size], span.at)
        return span

    def close(self) -> None:
        """Close the file, after the reads that are under way. Repeating it is fine."""
        self._file.close()

    def _begin(self, key: PayloadKey, commitment: bytes, plain_size: int) -> None:
        self.layout = _layout(self._file.size(), key, plain_size)
        header = bytearray(key.params.header)
        self._file.read(memoryview(header), 0)
        self._cipher = _committed(bytes(header), key, commitment)

    def _check_end(self, scratch: Scratch, *, at_once: bool) -> None:
        only, size = self.layout.count == 1, self.layout.plain_size
        if only and at_once and size > SMALL:
            return
        self.read_segment(self.layout.count - 1, scratch)
        if only and size <= SMALL:
            self.whole = bytes(scratch.plain[:size])

    def _refuse_if_failed(self) -> None:
        if self._failure:
            raise type(self._failure)(self._failure.message, place=self._failure.place)

    def _failed(self, error: BaseException, scratch: Scratch) -> None:
        scratch.wipe()
        if isinstance(error, NotAuthenticError | TruncatedError):
            self._failure = error

    def _open(self, index: int, span: Span, scratch: Scratch) -> None:
        sealed = scratch.plain[: span.size]
        begun = time.perf_counter()
        try:
            self._file.read(sealed, span.at)
            read = time.perf_counter()
            last = index == self.layout.count - 1
            self._cipher.open(index, sealed, sealed[: span.plain_size], last=last)
            scratch.read_seconds = read - begun
            scratch.open_seconds = time.perf_counter() - read
        except InvalidTag:
            place = Place(phase="authenticate", offset=span.plain_at, length=span.plain_size)
            raise NotAuthenticError("the segment isn't authentic", place=place) from None
        except TruncatedError as error:
            raise error.at(offset=span.plain_at, length=span.plain_size) from None


def _layout(size: int, key: PayloadKey, plain_size: int) -> Layout:
    found = Layout.of_file(size, key.params)
    if found.plain_size != plain_size:
        raise TruncatedError(
            f"the sealed file holds {found.plain_size} bytes, its record says {plain_size}"
        )
    return found


def _committed(header: bytes, key: PayloadKey, commitment: bytes) -> StreamCipher:
    cipher = StreamCipher(key, header)
    if not hmac.compare_digest(key.commitment(header), commitment):
        raise NotAuthenticError("it isn't the stream that the seal record commits to")
    return cipher
