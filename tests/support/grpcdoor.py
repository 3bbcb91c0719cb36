"""The gRPC door, called the way a client in another language would: stubs and messages only."""

from __future__ import annotations

import contextlib
import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import grpc
import pytest
from support.caller import error_of

from sealcar.v1 import (
    common_pb2,
    package_store_pb2,
    package_store_pb2_grpc,
    payloads_pb2,
    payloads_pb2_grpc,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from support.daemon import Daemon

    from sealcar.errors import SealcarError

MIB = 1 << 20
OTHER: Final = common_pb2.PAYLOAD_KIND_OTHER


@dataclass(frozen=True)
class Door:
    """Both services of a listener."""

    packages: package_store_pb2_grpc.PackageStoreStub
    payloads: payloads_pb2_grpc.PayloadsStub


@contextlib.contextmanager
def grpc_door(daemon: Daemon) -> Iterator[Door]:
    with grpc.insecure_channel(f"unix:{daemon.socket / 'grpc.sock'}") as channel:
        yield Door(
            package_store_pb2_grpc.PackageStoreStub(channel),
            payloads_pb2_grpc.PayloadsStub(channel),
        )


@contextlib.contextmanager
def refused(kind: type[SealcarError], text: str = "") -> Iterator[None]:
    """Expect a call to fail with this error, whose message holds this text."""
    with pytest.raises(grpc.RpcError) as failed:
        yield
    error = error_of(failed.value)
    assert type(error) is kind, error
    assert text in str(error)


def package(name: str, version: str = "") -> common_pb2.PackageRef:
    return common_pb2.PackageRef(name=name, version=version)


def scope(name: str, component: str = "c", variant: str = "v") -> common_pb2.Scope:
    return common_pb2.Scope(package=package(name), component=component, variant=variant)


def pieces(data: bytes, size: int = MIB) -> Iterator[bytes]:
    return (data[at : at + size] for at in range(0, len(data), size))


def import_steps(
    name: str, payloads: Mapping[str, bytes], *, version: str = "1"
) -> Iterator[package_store_pb2.ImportRequest]:
    """Yield the messages of an import of one component "c" with one variant "v"."""
    pb = package_store_pb2
    components: dict[str, object] = {"c": {"variants": {"v": {}}}}
    manifest = json.dumps({"schema_version": "1.0", "components": components})
    begin = pb.ImportBegin(package=package(name, version), manifest_json=manifest)
    yield pb.ImportRequest(begin=begin)
    for payload, data in payloads.items():
        yield announced(payload, len(data))
        for piece in pieces(data):
            yield pb.ImportRequest(data=piece)
    yield pb.ImportRequest(finish=pb.ImportFinish(payloads=len(payloads)))


def announced(name: str, size: int) -> package_store_pb2.ImportRequest:
    payload = package_store_pb2.ImportPayload(
        component="c", variant="v", name=name, kind=OTHER, size=size
    )
    return package_store_pb2.ImportRequest(payload=payload)


def write_steps(
    transaction: bytes,
    name: str,
    data: Iterable[bytes],
    *,
    size: int | None = None,
    kind: common_pb2.PayloadKind.ValueType = OTHER,
) -> Iterator[payloads_pb2.WriteRequest]:
    pb = payloads_pb2
    begin = pb.WriteBegin(transaction=transaction, name=name, kind=kind, size=size)
    yield pb.WriteRequest(begin=begin)
    for piece in data:
        yield pb.WriteRequest(data=piece)
