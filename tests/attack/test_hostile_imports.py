"""An import whose manifest is as large as it may be, and larger."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest
from support.daemon import Daemon
from support.grpcdoor import grpc_door, refused
from support.services import manifest

from sealcar.errors import InvalidPackageError
from sealcar.v1 import common_pb2
from sealcar.v1 import package_store_pb2 as pb

if TYPE_CHECKING:
    from collections.abc import Iterator

MOST = 3 << 20


@pytest.fixture(scope="module")
def daemon(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Daemon]:
    with Daemon(tmp_path_factory.mktemp("d")) as daemon:
        yield daemon


def steps(size: int) -> Iterator[pb.ImportRequest]:
    """Import a package whose manifest is filled up to so many bytes."""
    text = manifest(("det", "onnx"), description="")
    text["description"] = "x" * (size - len(json.dumps(text)))
    package = common_pb2.PackageRef(name="large")
    yield pb.ImportRequest(begin=pb.ImportBegin(package=package, manifest_json=json.dumps(text)))
    payload = pb.ImportPayload(
        component="det", variant="onnx", name="m", kind=common_pb2.PAYLOAD_KIND_OTHER
    )
    yield pb.ImportRequest(payload=payload)
    yield pb.ImportRequest(finish=pb.ImportFinish(payloads=1))


def test_a_manifest_over_the_limit_is_one_typed_error_and_one_at_the_limit_is_taken(
    daemon: Daemon,
) -> None:
    with grpc_door(daemon) as door:
        with refused(InvalidPackageError, "over 3 MiB"):
            list(door.packages.Import(steps(MOST + 1)))
        *_, last = door.packages.Import(steps(MOST))
        assert last.imported.generation == 1
