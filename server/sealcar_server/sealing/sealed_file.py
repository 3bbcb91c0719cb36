"""Where the ciphertext of one payload is read from: a file here, or one that has to be fetched."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Protocol

from sealcar.errors import Place, StorageError, TruncatedError
from sealcar_server.sealing.descriptor import Descriptor

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable


class SealedFile(Protocol):
    """The ciphertext of one payload, open for reading. Thread-safe.

    Closing it belongs to whoever has it. After that, and in it, reads raise WrongStateError.
    """

    @property
    def waits(self) -> bool:
        """Whether reading may have to wait for something slower than a disk."""

    def size(self) -> int:
        """Return how many bytes there are.

        Raises:
            StorageError: that can't be found out.
        """

    def read(self, target: memoryview, at: int, /) -> None:
        """Fill all of `target` with what lies at an offset; wait for it if it isn't here.

        Raises:
            TruncatedError: the file ends before.
            StorageError: it can't be read.
        """

    def ready(
        self, at: int, size: int, then: Callable[[], None], owner: Hashable = None, /
    ) -> bool:
        """Tell whether `read` would have these bytes, or an error, without waiting for them.

        Args:
            at: where they begin.
            size: how many.
            then: if not, called once from any thread as soon as it does; never after `close`.
            owner: for whom they are fetched: owners take turns.
        """

    def doubt(self, at: int, size: int, /) -> bool:
        """Take note that what was read there isn't authentic; tell whether it may be another time.

        It may be if it was a copy that was read, and can be fetched again.
        """

    def close(self) -> None:
        """Close it, after the reads that are under way. Repeating it is fine."""


class LocalFile:
    """A file of this machine; as `SealedFile`.

    It is read with preadv, never mapped: a file that is cut under a mapping would kill the process.

    Args:
        fd: of the file. It belongs to this object from now on.
    """

    waits = False

    def __init__(self, fd: int) -> None:
        self._file = Descriptor(fd)

    def size(self) -> int:
        """Return its size; StorageError if it has none."""
        try:
            with self._file as fd:
                return os.fstat(fd).st_size
        except OSError as error:
            raise _failed(error) from error

    def read(self, target: memoryview, at: int, /) -> None:
        """Fill `target`; as `SealedFile`."""
        try:
            with self._file as fd:
                done = os.preadv(fd, [target], at)
                while done < len(target):
                    got = os.preadv(fd, [target[done:]], at + done)
                    if got == 0:
                        raise TruncatedError(
                            "the sealed file ends too early", place=Place(phase="read")
                        )
                    done += got
        except OSError as error:
            raise _failed(error) from error

    def ready(
        self, at: int, size: int, then: Callable[[], None], owner: Hashable = None, /
    ) -> bool:
        """Tell that it is here."""
        del at, size, then, owner
        return True

    def doubt(self, at: int, size: int, /) -> bool:
        """Tell that it won't be any better."""
        del at, size
        return False

    def close(self) -> None:
        """Close it, after the reads that are under way. Repeating it is fine."""
        self._file.close()


def _failed(error: OSError) -> StorageError:
    return StorageError(f"the sealed file can't be read: {error.strerror}")
