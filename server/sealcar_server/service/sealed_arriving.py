"""One sealed payload while its ciphertext arrives: stored as it comes, each segment opened at once.

What is opened is looked at by nobody: only its tags, and at the end its digest, are compared.
"""

from __future__ import annotations

import hashlib
import hmac
import os
from typing import TYPE_CHECKING

from cryptography.exceptions import InvalidTag

from sealcar.errors import NotAuthenticError, Place, TruncatedError
from sealcar_server.sealing.layout import Layout
from sealcar_server.sealing.stream import StreamCipher
from sealcar_server.store.failure import storing

if TYPE_CHECKING:
    from sealcar_server.sealing.derivation import PayloadKey
    from sealcar_server.sealing.scratch import Scratch
    from sealcar_server.sealing.values import RecordPayload


class SealedArriving:
    """Owns the descriptor of its file in staging.

    Args:
        payload: what the record says of it.
        fd: of the new file.
        key: of the payload.
        scratch: private memory until `finish`; wiping it is its owner's business.
    """

    def __init__(self, payload: RecordPayload, fd: int, key: PayloadKey, scratch: Scratch) -> None:
        self._payload, self._fd, self._key, self._scratch = payload, fd, key, scratch
        self._layout = Layout.of_plain(payload.size)
        self._cipher: StreamCipher | None = None
        self._header = b""
        self._size = self._index = self._filled = 0
        self._stored, self._opened = hashlib.sha256(), hashlib.sha256()

    def feed(self, data: bytes) -> None:
        """Take the next bytes.

        Raises:
            TruncatedError: more than the record says.
            NotAuthenticError: they aren't what the record names.
            ExhaustedError, StorageError: they can't be written.
        """
        if self._size + len(data) > self._layout.file_size:
            raise TruncatedError(f"more than {self._layout.file_size} sealed bytes came")
        self._size += len(data)
        rest = memoryview(data)
        with storing("the sealed file"):
            while rest:
                rest = rest[os.write(self._fd, rest) :]
        self._stored.update(data)
        self._check(memoryview(data))

    def finish(self) -> tuple[bytes, bytes]:
        """Make it durable; return the SHA-256 of the file, and of what is sealed in it.

        Raises:
            TruncatedError: fewer bytes came than the record says.
            ExhaustedError, StorageError: it can't be written.
        """
        if self._size != self._layout.file_size:
            raise TruncatedError(
                f"{self._size} sealed bytes came, the record says {self._layout.file_size}"
            )
        with storing("the sealed file"):
            os.fsync(self._fd)
        self.close()
        return self._stored.digest(), self._opened.digest()

    def close(self) -> None:
        """Close the file; twice is fine."""
        fd, self._fd = self._fd, -1
        if fd >= 0:
            os.close(fd)

    def _check(self, data: memoryview) -> None:
        missing = self._key.params.header - len(self._header)
        self._header += bytes(data[:missing])
        rest = data[missing:] if missing else data
        if self._cipher is None and len(self._header) == self._key.params.header:
            self._cipher = self._committed()
        while rest:
            span = self._layout.span(self._index)
            piece = rest[: span.size - self._filled]
            self._scratch.plain[self._filled : self._filled + len(piece)] = piece
            self._filled += len(piece)
            rest = rest[len(piece) :]
            if self._filled == span.size:
                self._open(span.plain_at, span.plain_size)

    def _committed(self) -> StreamCipher:
        cipher = StreamCipher(self._key, self._header)
        if not hmac.compare_digest(self._key.commitment(self._header), self._payload.commitment):
            raise NotAuthenticError("it isn't the stream that the seal record commits to")
        return cipher

    def _open(self, plain_at: int, plain_size: int) -> None:
        sealed = self._scratch.plain[: self._filled]
        last = self._index == self._layout.count - 1
        place = Place(phase="authenticate", offset=plain_at, length=plain_size)
        if self._cipher is None:
            raise NotAuthenticError("the sealed file has no header")
        try:
            self._cipher.open(self._index, sealed, sealed[:plain_size], last=last)
        except InvalidTag:
            raise NotAuthenticError("the segment isn't authentic", place=place) from None
        self._opened.update(sealed[:plain_size])
        self._index, self._filled = self._index + 1, 0
