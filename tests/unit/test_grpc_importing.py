"""What whoever imports hears while his package comes in."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from support.services import ME, Running, manifest

from sealcar.v1 import common_pb2 as common
from sealcar.v1 import package_store_pb2 as pb
from sealcar_server.endpoints import grpc_importing

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    import pytest


def requests(count: int) -> Iterator[pb.ImportRequest]:
    """Yield an import of so many payloads without a byte."""
    package = common.PackageRef(name="ocr", version="1")
    text = json.dumps(manifest(("det", "onnx")))
    yield pb.ImportRequest(begin=pb.ImportBegin(package=package, manifest_json=text))
    for number in range(count):
        payload = pb.ImportPayload(
            component="det", variant="onnx", name=f"n{number}", kind=common.PAYLOAD_KIND_OTHER
        )
        yield pb.ImportRequest(payload=payload)
    yield pb.ImportRequest(finish=pb.ImportFinish(payloads=count))


def heard(running: Running, count: int) -> list[str]:
    """Return the names of payloads that progress was told at."""
    steps = grpc_importing.take_in(running.packages, ME, requests(count), lambda _: None)
    return [step.progress.payload for step in steps if step.WhichOneof("step") == "progress"]


def test_who_sends_many_files_and_few_bytes_hears_that_it_goes_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with Running(tmp_path) as running:
        assert heard(running, 3) == []
        running.service.removing.remove(ME, "ocr", "1")
        monkeypatch.setattr(grpc_importing, "_REPEAT", 0.0)
        assert heard(running, 3) == ["n0", "n1", "n2"]
