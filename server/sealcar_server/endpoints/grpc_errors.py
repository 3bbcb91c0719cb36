"""Errors as gRPC has them: google.rpc.Status with one `sealcar.v1.ErrorDetail`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import grpc
from google.protobuf.any_pb2 import Any as AnyMessage
from google.rpc.status_pb2 import Status  # type: ignore[import-untyped]  # publishes no types
from grpc_status import rpc_status

from sealcar import errors
from sealcar.details import to_detail

if TYPE_CHECKING:
    from grpc_status.rpc_status import _Status

_MAX_MESSAGE: Final = 2000  # characters; trailing metadata has 8 KiB in all
CODES: Final[dict[type[errors.SealcarError], grpc.StatusCode]] = {
    errors.InvalidRequestError: grpc.StatusCode.INVALID_ARGUMENT,
    errors.InvalidNameError: grpc.StatusCode.INVALID_ARGUMENT,
    errors.NotFoundError: grpc.StatusCode.NOT_FOUND,
    errors.DeniedError: grpc.StatusCode.PERMISSION_DENIED,
    errors.AlreadyExistsError: grpc.StatusCode.ALREADY_EXISTS,
    errors.WrongStateError: grpc.StatusCode.FAILED_PRECONDITION,
    errors.ConflictError: grpc.StatusCode.ABORTED,
    errors.IncompatibleError: grpc.StatusCode.FAILED_PRECONDITION,
    errors.InvalidPackageError: grpc.StatusCode.INVALID_ARGUMENT,
    errors.NotAuthenticError: grpc.StatusCode.DATA_LOSS,
    errors.TruncatedError: grpc.StatusCode.DATA_LOSS,
    errors.RolledBackError: grpc.StatusCode.DATA_LOSS,
    errors.UnknownFormatError: grpc.StatusCode.FAILED_PRECONDITION,
    errors.KeyRefusedError: grpc.StatusCode.FAILED_PRECONDITION,
    errors.KeyUnavailableError: grpc.StatusCode.UNAVAILABLE,
    errors.LockedError: grpc.StatusCode.UNAVAILABLE,
    errors.ExhaustedError: grpc.StatusCode.RESOURCE_EXHAUSTED,
    errors.UnavailableError: grpc.StatusCode.UNAVAILABLE,
    errors.TimedOutError: grpc.StatusCode.DEADLINE_EXCEEDED,
    errors.StorageError: grpc.StatusCode.INTERNAL,
    errors.InternalError: grpc.StatusCode.INTERNAL,
}


def code_of(error: errors.SealcarError) -> grpc.StatusCode:
    """Return the code of an error's class; a class that has none is INTERNAL."""
    return CODES.get(type(error), grpc.StatusCode.INTERNAL)


def status_of(
    error: errors.SealcarError, said: tuple[tuple[str, str], ...] = (), request: str = ""
) -> _Status:
    """Return an error as `context.abort_with_status` takes it.

    Args:
        error: the error.
        said: trailing metadata beside it.
        request: id of the call that it ends; several calls can end by one error.
    """
    detail = to_detail(error)
    detail.request_id = request
    detail.message = detail.message[:_MAX_MESSAGE]
    packed = AnyMessage()
    packed.Pack(detail)
    status = Status(code=code_of(error).value[0], message=detail.message, details=[packed])
    made = rpc_status.to_status(status)
    return made._replace(trailing_metadata=(*made.trailing_metadata, *said))
