from __future__ import annotations

import grpc
import pytest
from google.protobuf.any_pb2 import Any
from google.rpc.status_pb2 import Status  # type: ignore[import-untyped]  # publishes no types

from sealcar import details, errors
from sealcar.v1 import common_pb2
from sealcar_server.endpoints.grpc_errors import CODES, code_of, status_of


def detail_of(error: errors.SealcarError) -> tuple[Status, common_pb2.ErrorDetail]:
    made = status_of(error)
    (packed,) = [value for key, value in made.trailing_metadata if key == "grpc-status-details-bin"]
    status = Status.FromString(packed)
    detail = common_pb2.ErrorDetail()
    (item,) = status.details
    assert isinstance(item, Any)
    assert item.Unpack(detail)
    return status, detail


def test_every_reason_of_the_contract_has_a_code() -> None:
    assert set(CODES) == set(details.REASONS)
    assert grpc.StatusCode.OK not in CODES.values()
    assert grpc.StatusCode.UNKNOWN not in CODES.values()


@pytest.mark.parametrize("kind", list(CODES))
def test_an_error_is_the_same_class_on_either_side(kind: type[errors.SealcarError]) -> None:
    place = errors.Place(phase="open", package="p", payload="n", offset=1, length=2)
    error = kind("why", place=place, retry_after=1.5)
    status, detail = detail_of(error)
    assert status.code == CODES[kind].value[0]
    received = details.from_detail(detail)
    assert type(received) is kind
    assert (received.message, received.place, received.retry_after) == ("why", place, 1.5)


def test_a_class_without_a_reason_is_internal() -> None:
    error = errors.ConfigurationError("x")
    assert code_of(error) is grpc.StatusCode.INTERNAL
    assert detail_of(error)[1].reason == common_pb2.ERROR_REASON_INTERNAL


def test_a_long_message_is_cut_so_that_it_fits_into_trailers() -> None:
    name = "\N{SNOWMAN}" * 300
    error = errors.NotFoundError("m" * 100_000, place=errors.Place(payload=name))
    status, detail = detail_of(error)
    assert detail.payload == name
    assert len(status.message) == 2000
    assert status.ByteSize() < 8192
