"""An export as one tar file: uncompressed, and the same bytes each time for the same package."""

from __future__ import annotations

import os
import tarfile
from contextlib import suppress
from typing import TYPE_CHECKING, Final, Self

from sealcar.exports.places import beside, create, sync, sync_folder, write_all, writing

if TYPE_CHECKING:
    from pathlib import Path

_BLOCK: Final = tarfile.BLOCKSIZE
_MODE: Final = 0o644


class Tar:
    """A tar file in the making.

    Args:
        path: where it will be.
        private: for nobody but its owner, since it is plain.

    Raises:
        AlreadyExistsError: there is something.
        ExhaustedError, StorageError: it can't be written; so raise all methods.
    """

    def __init__(self, path: Path, *, private: bool) -> None:
        self._path, self._beside = path, beside(path)
        self._filled = 0
        self._fd = create(self._beside, 0o600 if private else _MODE)

    def file(self, path: str, size: int) -> None:
        """Begin the next file."""
        self._pad()
        # nothing in it tells who exported it, or when
        entry = tarfile.TarInfo(path)
        entry.size, entry.mode = size, _MODE
        self.write(entry.tobuf(tarfile.PAX_FORMAT, "utf-8", "strict"))

    def write(self, data: bytes) -> None:
        """Add to the file that was begun last."""
        write_all(self._fd, data, self._path)
        self._filled += len(data)

    def finish(self) -> None:
        """Make everything durable, then put it in its place."""
        self._pad()
        self.write(bytes(2 * _BLOCK))
        with writing(self._path):
            sync(self._beside)
        # the name is claimed, so that the rename replaces nothing of anybody else's
        os.close(create(self._path, _MODE))
        try:
            with writing(self._path):
                self._beside.rename(self._path)
        except BaseException:
            self._path.unlink(missing_ok=True)
            raise
        with writing(self._path):
            sync_folder(self._path)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1
        with suppress(OSError):
            self._beside.unlink(missing_ok=True)

    def _pad(self) -> None:
        self.write(bytes(-self._filled % _BLOCK))
