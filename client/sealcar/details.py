"""Errors on the wire: `sealcar.v1.ErrorDetail` to `sealcar.errors` and back, one to one.

Both doors of the daemon and both halves of the client use it, so that an error is the same class
on either side.
"""

from __future__ import annotations

from typing import Final

from sealcar import errors
from sealcar.v1 import common_pb2 as pb

REASONS: Final[dict[type[errors.SealcarError], pb.ErrorReason.ValueType]] = {
    errors.InvalidRequestError: pb.ERROR_REASON_INVALID_REQUEST,
    errors.InvalidNameError: pb.ERROR_REASON_INVALID_NAME,
    errors.NotFoundError: pb.ERROR_REASON_NOT_FOUND,
    errors.DeniedError: pb.ERROR_REASON_DENIED,
    errors.AlreadyExistsError: pb.ERROR_REASON_ALREADY_EXISTS,
    errors.WrongStateError: pb.ERROR_REASON_WRONG_STATE,
    errors.ConflictError: pb.ERROR_REASON_CONFLICT,
    errors.IncompatibleError: pb.ERROR_REASON_INCOMPATIBLE,
    errors.InvalidPackageError: pb.ERROR_REASON_INVALID_PACKAGE,
    errors.NotAuthenticError: pb.ERROR_REASON_NOT_AUTHENTIC,
    errors.TruncatedError: pb.ERROR_REASON_TRUNCATED,
    errors.RolledBackError: pb.ERROR_REASON_ROLLED_BACK,
    errors.UnknownFormatError: pb.ERROR_REASON_UNKNOWN_FORMAT,
    errors.KeyRefusedError: pb.ERROR_REASON_KEY_REFUSED,
    errors.KeyUnavailableError: pb.ERROR_REASON_KEY_UNAVAILABLE,
    errors.LockedError: pb.ERROR_REASON_LOCKED,
    errors.ExhaustedError: pb.ERROR_REASON_EXHAUSTED,
    errors.UnavailableError: pb.ERROR_REASON_UNAVAILABLE,
    errors.TimedOutError: pb.ERROR_REASON_TIMED_OUT,
    errors.StorageError: pb.ERROR_REASON_STORAGE,
    errors.InternalError: pb.ERROR_REASON_INTERNAL,
}
_MAX_ID: Final = 64
_CLASSES: Final = {reason: kind for kind, reason in REASONS.items()}
# the tens of a reason name its branch: what a newer peer says is at least of the right kind
_BRANCHES: Final[dict[int, type[errors.SealcarError]]] = {
    1: errors.RequestError,
    2: errors.DamagedError,
    3: errors.KeyRefusedError,
    4: errors.KeyUnavailableError,
    5: errors.ResourceError,
}


def to_detail(error: errors.SealcarError) -> pb.ErrorDetail:
    """Return the error as the wire has it; a class without a reason of its own is INTERNAL."""
    place = error.place
    detail = pb.ErrorDetail(
        reason=REASONS.get(type(error), pb.ERROR_REASON_INTERNAL),
        message=error.message,
        phase=place.phase,
        payload=place.payload,
        offset=place.offset,
        length=place.length,
        request_id=error.request_id,
    )
    if place.package:
        detail.scope.CopyFrom(
            pb.Scope(
                package=pb.PackageRef(name=place.package, version=place.version),
                component=place.component,
                variant=place.variant,
                generation=place.generation,
            )
        )
    if error.retry_after is not None:
        detail.retry_after_ms = round(error.retry_after * 1000)
    return detail


def from_detail(detail: pb.ErrorDetail) -> errors.SealcarError:
    """Return the error that the peer found: its own class, or its branch if the peer is newer."""
    kind = _CLASSES.get(detail.reason) or _BRANCHES.get(detail.reason // 10, errors.InternalError)
    place = errors.Place(
        phase=detail.phase,
        package=detail.scope.package.name,
        version=detail.scope.package.version,
        component=detail.scope.component,
        variant=detail.scope.variant,
        generation=detail.scope.generation,
        payload=detail.payload,
        offset=detail.offset if detail.HasField("offset") else None,
        length=detail.length if detail.HasField("length") else None,
    )
    retry = detail.retry_after_ms / 1000 if detail.HasField("retry_after_ms") else None
    # a line of this program: nothing that a daemon sends may look like two
    request = detail.request_id if detail.request_id.isprintable() else ""
    return kind(detail.message, place=place, retry_after=retry, request_id=request[:_MAX_ID])
