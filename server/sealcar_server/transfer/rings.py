"""The daemon's side of a ring: a few hot slots that exactly one connection shares.

Nobody can change a ring's size once its descriptor leaves, so a client's truncate can't kill the
daemon with SIGBUS. A ring that clients read can never be written by them, whatever their uid.
"""

from __future__ import annotations

import mmap
import os
from typing import Final, Self

from sealcar.errors import ExhaustedError
from sealcar.transfer.descriptors import FIXED_SIZE, Exported, Seal, memory, read_only, seal
from sealcar_server.sealing.layout import SEGMENT

SLOTS: Final = 8
SIZE: Final = SLOTS * SEGMENT
_DONT_FORK: Final = mmap.MADV_DONTFORK


class Ring:
    """Slots of one segment each; the descriptor for the client is handed out once.

    Args:
        client_writes: which side fills the slots.

    Raises:
        ExhaustedError: the system has no memory or descriptors left.
    """

    def __init__(self, *, client_writes: bool) -> None:
        self.client_writes = client_writes
        try:
            descriptor = memory("sealcar-ring", SIZE)
            try:
                self._map = mmap.mmap(descriptor, SIZE)
                self._map.madvise(mmap.MADV_DONTDUMP)
                self._map.madvise(_DONT_FORK)
                # after our own map exists: from here on no other can be made for writing
                foreign = Seal(0) if client_writes else Seal.FUTURE_WRITE
                seal(descriptor, FIXED_SIZE | Seal.SEAL | foreign)
                self._theirs = os.dup(descriptor) if client_writes else read_only(descriptor)
            finally:
                os.close(descriptor)
        except OSError as error:
            raise ExhaustedError(f"no ring could be made: {error.strerror}") from error
        with Exported(self._map, writable=True) as whole:
            self._address = whole.address

    def take_descriptor(self) -> int:
        """Return the client's descriptor, which the caller has to close."""
        descriptor, self._theirs = self._theirs, -1
        return descriptor

    def address(self, slot: int) -> int:
        """Return where a slot begins."""
        return self._address + slot * SEGMENT

    def close(self) -> None:
        """Unmap. The pages are gone when the client unmaps them too."""
        if self._theirs >= 0:
            os.close(self.take_descriptor())
        self._map.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
