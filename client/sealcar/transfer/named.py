"""A payload in memory that has a path, for who takes nothing but files.

Nobody can change it any more, and no file of any disk is behind it: the path leads to a descriptor
of this process.
"""

from __future__ import annotations

import os
from contextlib import closing, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Final

from sealcar.closing import Closing
from sealcar.errors import UnavailableError
from sealcar.transfer.descriptors import FIXED_SIZE, Exported, Seal, memory, read_only, seal
from sealcar.transfer.memory import copy, keep_out_of_dumps, new_bytes
from sealcar.transfer.segments import SegmentMemory, check_unchangeable

if TYPE_CHECKING:
    from collections.abc import Callable

_NAME: Final = "sealcar-payload"
_INODE: Final = 4  # of the words of a line in /proc/self/maps


class NamedMemory(Closing):
    """A whole payload; who has opened it by its path keeps it after it is closed here.

    Args:
        descriptor: of the memory; stays the caller's.
        size: of the payload.

    Attributes:
        size: of the payload.
        path: to open it by, for reading.

    Raises:
        UnavailableError: somebody could still change it, its size isn't the payload's, or no
            descriptor is left.
    """

    def __init__(self, descriptor: int, size: int) -> None:
        check_unchangeable(descriptor, size)
        try:
            self._descriptor = os.dup(descriptor)
        except OSError as error:
            raise UnavailableError(f"a payload can't be held: {error.strerror}") from error
        self.size = size
        self.path = f"/proc/self/fd/{self._descriptor}"

    def mapped(self) -> SegmentMemory:
        """Return the memory, mapped for reading; raises as `SegmentMemory`."""
        return SegmentMemory(self._descriptor, self.size)

    def read(self) -> bytes:
        """Return it as bytes.

        Raises:
            ExhaustedError: the system gives no more memory.
        """
        data = new_bytes(self.size)  # nobody else has a reference to it
        with closing(self.mapped()) as source, Exported(data) as target:
            copy(target.address, source.address, self.size)
        return data

    def keep_out_of_dumps(self) -> None:
        """Leave it out when this process dumps core, wherever it is mapped now."""
        inode = str(os.fstat(self._descriptor).st_ino)
        for line in Path("/proc/self/maps").read_text(errors="replace").splitlines():
            words = line.split()
            if words[_INODE] == inode and words[-2].startswith("/memfd:"):
                start, end = (int(each, 16) for each in words[0].split("-"))
                keep_out_of_dumps(start, end - start)

    def close(self) -> None:
        """Give the descriptor back; maps stay."""
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1


def filled(size: int, fill: Callable[[int], None]) -> NamedMemory | None:
    """Return memory of this process's own; None where that can't be had, or has no path.

    Args:
        size: of the payload.
        fill: writes all of it to a descriptor; no map for writing ever exists.

    Raises:
        SealcarError: what `fill` raises.
    """
    try:
        descriptor = memory(_NAME, size)
    except OSError:  # too old a kernel, or a sandbox
        return None
    try:
        if not _opens(descriptor) or not _sealed(descriptor, FIXED_SIZE):
            return None
        fill(descriptor)
        if not _sealed(descriptor, Seal.WRITE | Seal.SEAL):
            return None
        return NamedMemory(descriptor, size)
    finally:
        os.close(descriptor)


def _opens(descriptor: int) -> bool:
    with suppress(OSError):
        os.close(read_only(descriptor))
        return True
    return False


def _sealed(descriptor: int, seals: Seal) -> bool:
    with suppress(OSError):
        seal(descriptor, seals)
        return True
    return False
