"""What a bucket's answers mean, and the library's errors, as the store's own.

What the service or the library says is never passed on: it may repeat a request with its signature
and its session token. Only the status and the code of S3 are taken out of it.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from sealcar.errors import (
    AlreadyExistsError,
    ConflictError,
    ExhaustedError,
    NotAuthenticError,
    NotFoundError,
    SealcarError,
    StorageError,
)
from sealcar.names import shown

if TYPE_CHECKING:
    from obstore import ObjectMeta, PutResult

_STATUS: Final = re.compile(r"status code: (\d{3})")
_CODE: Final = re.compile(r"<Code>([A-Za-z0-9]{1,64})</Code>")
_PLACE: Final = "the store's bucket"
_SERVER_ERROR: Final = 500
# of others: too slow, too many, at the same time as another
_AGAIN: Final = {408, 409, 425, 429}
_AGAIN_CODES: Final = {
    "RequestTimeout",
    "SlowDown",
    "OperationAborted",
    "ConditionalRequestConflict",
}
_FULL: Final = {"QuotaExceeded", "XMinioStorageFull", "EntityTooLarge", "InsufficientStorage"}
# the library's errors: how each is counted, what it is here, and what is said of the object
_KINDS: Final[dict[str, tuple[str, type[SealcarError], str]]] = {
    "FileNotFoundError": ("absent", NotFoundError, "doesn't exist"),
    "AlreadyExistsError": ("conflict", AlreadyExistsError, "exists already"),
    "PreconditionError": ("conflict", ConflictError, "was changed by another"),
    "ShortError": ("failed", StorageError, "comes in another length than it has"),
}


class ShortError(Exception):
    """Another number of bytes came than was asked for: cut, or not this answer."""


def etag_of(answer: ObjectMeta | PutResult) -> str:
    """Return the etag in an answer; StorageError if the service gives none."""
    found = answer["e_tag"]
    if not found:
        raise StorageError("the bucket gives no etags: sealcar can't tell its objects apart")
    return found


def require(size: int, wanted: int) -> None:
    """Make sure of a size; ShortError if it is another one."""
    if size != wanted:
        raise ShortError(f"{size} bytes instead of {wanted}")


def is_unchanged(error: Exception) -> bool:
    """Tell whether an error of the library means that an object is the one that is known."""
    return type(error).__name__ == "NotModifiedError"


def passes(error: Exception) -> bool:
    """Tell whether it may go better the next time."""
    if isinstance(error, ShortError):
        return True
    status, code = _said(error)
    if code in _AGAIN_CODES:
        # whatever the library makes of it: two at the same time are to it an object that is there
        return True
    if type(error).__name__ != "GenericError":
        return False
    # without a status: no connection, cut, too slow
    return not status or status >= _SERVER_ERROR or status in _AGAIN


def failure(kind: str, key: str, error: Exception) -> tuple[str, SealcarError]:
    """Return how a failed request is counted, and the error that it is.

    It doesn't say where the bucket is: clients are told these errors.

    Args:
        kind: of request.
        key: that it was about.
        error: of the library.
    """
    status, code = _said(error)
    known = None if code in _AGAIN_CODES else _KINDS.get(type(error).__name__)
    if known is not None and code != "NoSuchBucket":
        counted, found, finding = known
        if found is ConflictError and kind in {"read", "range"}:
            counted, found, finding = "failed", NotAuthenticError, "was replaced meanwhile"
        if found is NotFoundError and kind == "range":
            return counted, found("it was removed meanwhile: open the package anew")
        return counted, found(f"{shown(key)} in {_PLACE} {finding}")
    if type(error).__name__ == "InvalidPathError":
        return "failed", NotAuthenticError(f"{_PLACE} has a key in it that no store has")
    if code in _FULL:
        return "failed", ExhaustedError(f"{_PLACE} is full: it says {code}")
    finding = f"answers {status} {code}".rstrip() if status else "can't be reached"
    return "failed", StorageError(f"{_PLACE} {finding}, asked to {kind} {shown(key)}")


def _said(error: Exception) -> tuple[int, str]:
    """Return the status and the code of S3's answer; 0 and "" if there was none."""
    text = str(error)
    status, code = _STATUS.search(text), _CODE.search(text)
    return int(status[1]) if status else 0, code[1] if code else ""
