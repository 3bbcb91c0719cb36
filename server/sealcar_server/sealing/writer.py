"""Writes a sealed payload: any thread seals any segment, each once, at its own place."""

from __future__ import annotations

import ctypes
import errno
import os
import threading
from typing import TYPE_CHECKING, Final, NamedTuple

from sealcar.closing import Closing
from sealcar.errors import (
    ExhaustedError,
    InvalidRequestError,
    SealcarError,
    StorageError,
    WrongStateError,
)
from sealcar_server.sealing.descriptor import Descriptor
from sealcar_server.sealing.layout import TAG, Layout
from sealcar_server.sealing.memory import LIBC
from sealcar_server.sealing.stream import StreamCipher, fresh_header

if TYPE_CHECKING:
    from collections.abc import Callable

    from sealcar_server.sealing.derivation import PayloadKey
    from sealcar_server.sealing.layout import Params
    from sealcar_server.sealing.scratch import Scratch

_FULL: Final = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EFBIG})
_START_WRITE_OUT: Final = 2  # SYNC_FILE_RANGE_WRITE


class SealedSize(NamedTuple):
    """What the record says of a payload that was sealed."""

    plain_size: int
    commitment: bytes


class SealedWriter(Closing):
    """One payload being sealed. Thread-safe.

    A segment is sealed once, whatever happens: sealing other bytes under the same nonce would give
    both away. A writer that failed is closed, and its file thrown away.

    Args:
        fd: of a new, empty file. It belongs to the writer from now on, and is closed if this fails.
        key: of the payload.
        reserve: told how many bytes come before they are written; what it raises, sealing raises.

    Raises:
        ExhaustedError: the disk is full.
        StorageError: the file can't be written.
    """

    def __init__(
        self, fd: int, key: PayloadKey, reserve: Callable[[int], None] = lambda _size: None
    ) -> None:
        self._file = Descriptor(fd)
        self._reserve = reserve
        self._params = key.params
        self._lock = threading.Lock()
        self._claimed: set[int] = set()
        self._sealed = 0
        self._layout: Layout | None = None
        try:
            header = self._new_header(key.params)
            self._cipher = StreamCipher(key, header)
            self._commitment = key.commitment(header)
            _write(fd, memoryview(header), 0)
        except BaseException:
            self.close()
            raise

    def seal_segment(self, index: int, scratch: Scratch, plain_size: int, *, last: bool) -> None:
        """Seal `scratch.plain[:plain_size]` as this segment and write it to its place.

        Raises:
            WrongStateError: it was sealed before, or comes after the last; or the writer is closed.
            InvalidRequestError: only the last segment may be less than full, and only that of an
                empty payload empty.
            ExhaustedError: the disk is full, or it can't be reserved.
            StorageError: the file can't be written.
        """
        self._claim(index, plain_size, last=last)
        self._reserve(plain_size + TAG)
        sealed = scratch.sealed[: plain_size + TAG]
        self._cipher.seal(index, scratch.plain[:plain_size], sealed, last=last)
        at = index * self._params.segment if index else self._params.header
        with self._file as fd:
            _write(fd, sealed, at)
        with self._lock:
            self._sealed += 1

    def finish(self) -> SealedSize:
        """Wait until everything is on the disk.

        Raises:
            WrongStateError: a segment is missing, or the writer is closed.
            ExhaustedError: the disk is full.
            StorageError: the file can't be written.
        """
        with self._lock:
            layout = self._layout
            if layout is None or self._sealed != layout.count:
                raise WrongStateError("the payload isn't complete: a segment is missing")
        with self._file as fd:
            try:
                os.fsync(fd)
            except OSError as error:
                raise _failure(error) from error
        return SealedSize(layout.plain_size, self._commitment)

    def close(self) -> None:
        """Close the file, after the writes that are under way. Repeating it is fine.

        Without `finish` before, the file is to be thrown away.
        """
        self._file.close()

    def _claim(self, index: int, plain_size: int, *, last: bool) -> None:
        full = self._params.piece if index else self._params.first_piece
        least = (1 if index else 0) if last else full
        if index < 0 or not least <= plain_size <= full:
            raise InvalidRequestError(f"segment {index} can't hold {plain_size} bytes")
        with self._lock:
            end = self._layout.count if self._layout else None
            beyond = last and any(other > index for other in self._claimed)
            if index in self._claimed or beyond or (end is not None and (last or index >= end)):
                raise WrongStateError(f"segment {index} was sealed before, or is past the end")
            if last:
                before = index * self._params.piece - self._params.header if index else 0
                self._layout = Layout.of_plain(before + plain_size, self._params)
            self._claimed.add(index)

    @staticmethod
    def _new_header(params: Params) -> bytes:
        return fresh_header(params)


def _write(fd: int, data: memoryview, at: int) -> None:
    done = 0
    try:
        while done < len(data):
            done += os.pwrite(fd, data[done:], at + done)
    except OSError as error:
        raise _failure(error) from error
    # only a hint, so that fsync finds little left to do; fsync reports what fails
    LIBC.sync_file_range(fd, ctypes.c_int64(at), ctypes.c_int64(len(data)), _START_WRITE_OUT)


def _failure(error: OSError) -> SealcarError:
    kind = ExhaustedError if error.errno in _FULL else StorageError
    return kind(f"the sealed file can't be written: {error.strerror}")
