"""A daemon elsewhere that lies: what a client takes from its streams."""

from __future__ import annotations

import ctypes
from concurrent import futures
from typing import TYPE_CHECKING, Any, Final

import grpc
import pytest
from support.certificates import Authority
from support.tls import OCR

import sealcar
from sealcar.errors import (
    IncompatibleError,
    InvalidRequestError,
    NotAuthenticError,
    TruncatedError,
    UnavailableError,
)
from sealcar.v1 import common_pb2, payloads_pb2, payloads_pb2_grpc

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from pathlib import Path

    from sealcar.remote import RemoteClient

SIZE: Final = 1000


class _Liar(payloads_pb2_grpc.PayloadsServicer):
    """Opens any scope with one payload of SIZE bytes; sends what it is told to."""

    pieces: Sequence[bytes] = ()
    then: Callable[[grpc.ServicerContext], object] = staticmethod(lambda _context: None)
    info = "{}"

    def Open(self, request: Any, context: Any) -> payloads_pb2.OpenResponse:  # noqa: ANN401, ARG002, N802  (gRPC's)
        payload = common_pb2.PayloadInfo(name="a", size=SIZE, sealed=True, identity=b"x" * 32)
        variant = common_pb2.VariantInfo(
            component="c", variant="v", payloads=[payload], executor_info_json=self.info
        )
        return payloads_pb2.OpenResponse(scope=request.scope, variant=variant)

    def Read(self, request: Any, context: Any) -> Iterator[payloads_pb2.ReadResponse]:  # noqa: ANN401, ARG002, N802  (gRPC's)
        for piece in self.pieces:
            yield payloads_pb2.ReadResponse(data=piece)
        self.then(context)


@pytest.fixture
def liar() -> _Liar:
    return _Liar()  # type: ignore[abstract]  # the other methods are never called


@pytest.fixture
def client(liar: _Liar, tmp_path: Path) -> Iterator[RemoteClient]:
    authority = Authority()
    own = authority.issue("spiffe://example.org/sealcar", addresses=("127.0.0.1",))
    certificate, key = authority.issue(OCR).write(tmp_path, "caller")
    ca = tmp_path / "ca.pem"
    ca.write_bytes(authority.certificate)
    server = grpc.server(futures.ThreadPoolExecutor(2))
    payloads_pb2_grpc.add_PayloadsServicer_to_server(liar, server)
    credentials = grpc.ssl_server_credentials(
        [(own.key, own.certificate)], authority.certificate, require_client_auth=True
    )
    port = server.add_secure_port("127.0.0.1:0", credentials)
    server.start()
    with sealcar.connect_remote(
        f"127.0.0.1:{port}", ca=ca, certificate=certificate, key=key, timeout=2
    ) as client:
        yield client
    server.stop(0).wait()


@pytest.mark.parametrize(
    ("pieces", "kind"),
    [
        ([b"x" * SIZE, b"y"], NotAuthenticError),
        ([b"x" * (SIZE - 1), b"yz"], NotAuthenticError),
        ([b"x" * (SIZE + 1)], NotAuthenticError),
        ([b"x" * (SIZE - 1)], TruncatedError),
        ([b"", b""], TruncatedError),
        ([], TruncatedError),
    ],
)
def test_more_or_less_than_was_announced_leaves_nothing_in_the_target_or_beyond_it(
    client: RemoteClient, liar: _Liar, pieces: list[bytes], kind: type[Exception]
) -> None:
    liar.pieces = pieces
    memory = ctypes.create_string_buffer(b"\xaa" * (SIZE + 64), SIZE + 64)
    with client.scope("ocr", "c", "v").reader("a") as reader, pytest.raises(kind) as failed:
        reader.read_into(ctypes.addressof(memory), SIZE)
    assert memory.raw == bytes(SIZE) + b"\xaa" * 64
    assert "ocr" in str(failed.value)


def test_a_stream_that_breaks_or_hangs_leaves_nothing_in_the_target(
    client: RemoteClient, liar: _Liar
) -> None:
    liar.pieces = [b"x" * 100]
    for then in (
        lambda context: context.abort(grpc.StatusCode.UNAVAILABLE, "gone"),
        lambda context: context.cancel(),
    ):
        liar.then = then
        target = bytearray(b"\xaa" * SIZE)
        with client.scope("ocr", "c", "v").reader("a") as reader, pytest.raises(UnavailableError):
            reader.read_into(target)
        assert target == bytes(SIZE)


def test_a_target_of_another_size_is_refused_before_anything_is_asked(
    client: RemoteClient, liar: _Liar
) -> None:
    liar.pieces = [b"x" * SIZE]
    scope = client.scope("ocr", "c", "v")
    for target, size in ((bytearray(SIZE - 1), None), (bytearray(SIZE), SIZE + 1), (0, SIZE)):
        with scope.reader("a") as reader, pytest.raises(InvalidRequestError):
            reader.read_into(target, size)
    assert scope.read("a") == b"x" * SIZE


@pytest.mark.parametrize("info", ["[1]", "{", "\x00"])
def test_executor_info_that_is_no_object_is_refused(
    client: RemoteClient, liar: _Liar, info: str
) -> None:
    liar.info = info
    with pytest.raises(UnavailableError, match="executor_info"):
        client.scope("ocr", "c", "v").open()


def test_a_server_that_is_no_daemon_is_named_so(client: RemoteClient) -> None:
    with pytest.raises(IncompatibleError):
        list(client.catalogue.list())
