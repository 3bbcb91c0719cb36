"""Payloads on their way into staging."""

from __future__ import annotations

import hashlib
from functools import lru_cache
from typing import TYPE_CHECKING, Self

from sealcar.errors import InvalidRequestError, WrongStateError
from sealcar_server.sealing.encoding import enc
from sealcar_server.sealing.layout import FIRST_PIECE, PIECE

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import TracebackType

    from sealcar_server.sealing.scratch import Scratch
    from sealcar_server.sealing.values import RecordPayload
    from sealcar_server.sealing.writer import SealedSize, SealedWriter
    from sealcar_server.service.values import PayloadValue


def identity(payload: RecordPayload) -> bytes:
    """Return what two payloads share only if their bytes are the same."""
    return _identity(payload.commitment or payload.sha256)


@lru_cache(4096)
def _identity(pinned: bytes) -> bytes:
    # public, and asked for at every read
    return hashlib.sha256(enc("sealcar v1 identity", pinned)).digest()


class PayloadSink:
    """One payload of a transaction while it is written; aborted on leaving unless finished.

    Whoever got it ends it, by `finish` or `abort`, once no thread uses the writer any more; a
    transaction that ends in between doesn't close it.

    Attributes:
        writer: seals segments, from any thread.
        size: the declared size; None if it is known only at the end.
    """

    def __init__(
        self,
        writer: SealedWriter,
        size: int | None,
        *,
        accept: Callable[[SealedSize], PayloadValue],
        drop: Callable[[], None],
    ) -> None:
        self.writer = writer
        self.size = size
        self._accept, self._drop = accept, drop
        self._ended = False

    def finish(self) -> PayloadValue:
        """Make the payload durable and a part of its transaction.

        Raises:
            InvalidRequestError: the bytes don't add up to the declared size.
            WrongStateError: a segment is missing, or the transaction or the sink has ended.
            ExhaustedError, StorageError: it can't be written. After any error its file is gone.
        """
        if self._ended:
            raise WrongStateError("the payload's writing has ended already")
        try:
            sealed = self.writer.finish()
            self._check_size(sealed.plain_size)
            value = self._accept(sealed)
        except BaseException:
            self.abort()
            raise
        self._ended = True
        self.writer.close()
        return value

    def abort(self) -> None:
        """Remove what was written; fine if the sink has ended."""
        if not self._ended:
            self._ended = True
            self.writer.close()
            self._drop()

    def _check_size(self, size: int) -> None:
        if self.size not in (None, size):
            raise InvalidRequestError(f"{size} bytes came, {self.size} were declared")

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.abort()


class OrderedSealer:
    """Seals bytes that come in order, in pieces of any size. For one thread.

    Args:
        writer: of the payload; closing it is its owner's business.
        scratch: private memory of the calling thread, used until `finish`.
    """

    def __init__(self, writer: SealedWriter, scratch: Scratch) -> None:
        self._writer, self._scratch = writer, scratch
        self._index = 0
        self._filled = 0
        self.size = 0

    def feed(self, data: bytes | memoryview) -> None:
        """Take the next bytes.

        Raises:
            ExhaustedError, StorageError: they can't be written.
        """
        rest = memoryview(data).cast("B")
        while rest:
            room = (PIECE if self._index else FIRST_PIECE) - self._filled
            if not room:
                # only now is it known that this segment isn't the last
                self._seal(last=False)
                continue
            piece, rest = rest[:room], rest[room:]
            self._scratch.plain[self._filled : self._filled + len(piece)] = piece
            self._filled += len(piece)
            self.size += len(piece)

    def finish(self) -> None:
        """Seal what is left as the last segment; raises as `feed` does."""
        self._seal(last=True)

    def _seal(self, *, last: bool) -> None:
        self._writer.seal_segment(self._index, self._scratch, self._filled, last=last)
        self._index += 1
        self._filled = 0
