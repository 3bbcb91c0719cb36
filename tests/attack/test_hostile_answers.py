"""A daemon elsewhere that lies: what commands print of its answers."""

from __future__ import annotations

from concurrent import futures
from typing import TYPE_CHECKING, Any, Final

import grpc
import pytest
from support.certificates import Authority
from support.tls import OCR

from sealcar.cli import main
from sealcar.v1 import common_pb2, package_store_pb2, package_store_pb2_grpc

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

STEERING: Final = "\x1b]0;named by somebody else\x07"


class _Liar(package_store_pb2_grpc.PackageStoreServicer):
    """Calls every package something that renames a terminal."""

    def Validate(self, request: Any, context: Any) -> package_store_pb2.ValidateResponse:  # noqa: ANN401, ARG002, N802  (gRPC's)
        package = common_pb2.PackageRef(name=f"ocr{STEERING}", version=STEERING)
        return package_store_pb2.ValidateResponse(package=package, generation=1, verified=True)


@pytest.fixture
def options(tmp_path: Path) -> Iterator[list[str]]:
    authority = Authority()
    own = authority.issue("spiffe://example.org/sealcar", addresses=("127.0.0.1",))
    certificate, key = authority.issue(OCR).write(tmp_path, "caller")
    ca = tmp_path / "ca.pem"
    ca.write_bytes(authority.certificate)
    server = grpc.server(futures.ThreadPoolExecutor(2))
    liar = _Liar()  # type: ignore[abstract]  # the other methods are never called
    package_store_pb2_grpc.add_PackageStoreServicer_to_server(liar, server)
    credentials = grpc.ssl_server_credentials(
        [(own.key, own.certificate)], authority.certificate, require_client_auth=True
    )
    port = server.add_secure_port("127.0.0.1:0", credentials)
    server.start()
    files = {"--tls-ca": ca, "--tls-cert": certificate, "--tls-key": key}
    given = [text for name, path in files.items() for text in (name, str(path))]
    yield ["--remote", f"127.0.0.1:{port}", *given]
    server.stop(0).wait()


def test_the_name_of_what_was_validated_steers_no_terminal(
    options: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert main.run(["validate", "ocr", *options]) == main.DONE
    printed = capsys.readouterr().out
    assert "ocr" in printed
    assert "\x1b" not in printed
