"""What the operating system says, as the store's own errors."""

from __future__ import annotations

import errno
from typing import Final

from sealcar import errors

_KINDS: Final[dict[int, tuple[type[errors.SealcarError], str]]] = {
    errno.ENOENT: (errors.NotFoundError, "doesn't exist"),
    errno.EEXIST: (errors.AlreadyExistsError, "exists already"),
    errno.ENOSPC: (errors.ExhaustedError, "doesn't fit: the store's disk is full"),
    errno.EDQUOT: (errors.ExhaustedError, "doesn't fit: the disk quota is used up"),
    errno.EMFILE: (errors.ExhaustedError, "can't be opened: the daemon has too many files open"),
    errno.ELOOP: (errors.NotAuthenticError, "is a link; the store holds none"),
    errno.ENOTDIR: (errors.NotAuthenticError, "is no directory, though the store has one there"),
    errno.ENAMETOOLONG: (
        errors.InvalidNameError,
        "has too long a name for the file system",
    ),
    errno.EROFS: (errors.StorageError, "can't be written: the store is read-only"),
}


def storing(what: str) -> _Storing:
    """Turn every `OSError` inside into a typed error that begins with `what`.

    Raises:
        NotFoundError: there is no such file or directory.
        AlreadyExistsError: there is one already.
        ExhaustedError: disk, quota or descriptors are used up.
        NotAuthenticError: a link, or no directory, where the store never puts one.
        StorageError: anything else.
    """
    return _Storing(what)


class _Storing:
    # every read passes several of these: a generator would take three times as long
    __slots__ = ("_what",)

    def __init__(self, what: str) -> None:
        self._what = what

    def __enter__(self) -> None:
        pass

    def __exit__(self, kind: object, error: object, trace: object) -> None:
        if isinstance(error, OSError):
            found, finding = _KINDS.get(
                error.errno or 0, (errors.StorageError, f"failed: {error.strerror}")
            )
            raise found(f"{self._what} {finding}") from error
