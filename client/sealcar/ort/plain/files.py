"""Reads an opened file into its final destination, all of it or not at all."""

from __future__ import annotations

import ctypes
import os
from typing import TYPE_CHECKING, Self

from sealcar.errors import InvalidPackageError, InvalidRequestError, StorageError
from sealcar.transfer.descriptors import Exported
from sealcar.transfer.memory import PIECE, PrivateMemory, new_bytes, wipe

if TYPE_CHECKING:
    from types import TracebackType


class FileReader:
    """A file as it was when this reader was made; several may read one descriptor at a time.

    Args:
        descriptor: of a regular file; stays its owner's.

    Attributes:
        size: of the file.
    """

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor
        self._state = self._look()
        self.size = self._state[0]

    def read_into(self, target: int, size: int, /) -> None:
        """Fill memory, whose owner keeps it alive, with the whole file.

        Raises:
            InvalidRequestError: the sizes differ.
            InvalidPackageError: the file changed meanwhile; the target has been wiped.
            StorageError: it can't be read; the same.
        """
        if size != self.size:
            raise InvalidRequestError(f"the file has {self.size} bytes, the target {size}")
        try:
            self._fill(target)
        except BaseException:
            wipe(target, size)
            raise

    def read(self) -> bytes:
        """Return the whole file.

        Raises:
            SealcarError: as `read_into`; ExhaustedError: there is no memory for it.
        """
        data = new_bytes(self.size)
        with Exported(data) as buffer:
            self.read_into(buffer.address, self.size)
        return data

    def view(self) -> memoryview:
        """Return the whole file in read-only memory, which lives as long as the view.

        Raises:
            SealcarError: as `read`.
        """
        memory = PrivateMemory(self.size)
        self.read_into(memory.address, self.size)
        memory.freeze()
        return memory.view()

    def _fill(self, target: int) -> None:
        at = 0
        while at < self.size:
            # the interpreter lock is released while the system copies
            piece = (ctypes.c_char * min(PIECE, self.size - at)).from_address(target + at)
            try:
                read = os.preadv(self._descriptor, [piece], at)
            except OSError as error:
                raise StorageError(f"the file can't be read: {error.strerror}") from error
            if not read:
                break
            at += read
        if at < self.size or self._look() != self._state:
            raise InvalidPackageError("the file changed while it was read")

    def _look(self) -> tuple[int, int]:
        found = os.fstat(self._descriptor)
        return found.st_size, found.st_mtime_ns

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
        /,
    ) -> None:
        """Do nothing: the descriptor is its owner's."""
