"""A worker's private memory: the only place where plaintext lies before it is authentic."""

from __future__ import annotations

import mmap
from contextlib import suppress

from sealcar_server.sealing import memory
from sealcar_server.sealing.layout import SEGMENT

_HUGE_PAGE = 2 << 20


class Scratch:
    """Room for one segment in plain and one sealed, side by side in one huge page.

    One thread at a time uses it. It is never shared with another process.

    Attributes:
        plain: where a segment is decrypted, or stands before it is sealed.
        sealed: where the writer puts a segment's ciphertext.
        address_of_plain: of the first byte of `plain`, for copies without the GIL.
        read_seconds, open_seconds: that the segment in `plain` took to be read and decrypted.
        queued_seconds: that what is done with it now waited for its thread.
    """

    __slots__ = (
        "_memory",
        "_size",
        "address_of_plain",
        "open_seconds",
        "plain",
        "queued_seconds",
        "read_seconds",
        "sealed",
    )

    def __init__(self, segment: int = SEGMENT) -> None:
        self._size = 2 * segment
        self.read_seconds = self.open_seconds = self.queued_seconds = 0.0
        # one page more than needed, so that the used part can begin on a page's boundary
        self._memory = memory.private(self._size + _HUGE_PAGE)
        with suppress(OSError):
            self._memory.madvise(mmap.MADV_HUGEPAGE)
        start = memory.address(self._memory)
        self.address_of_plain = -(-start // _HUGE_PAGE) * _HUGE_PAGE
        skip = self.address_of_plain - start
        whole = memoryview(self._memory)[skip : skip + self._size]
        self.plain, self.sealed = whole[:segment], whole[segment:]

    def wipe(self) -> None:
        """Overwrite all of it with zeros."""
        memory.zero(self.address_of_plain, self._size)
