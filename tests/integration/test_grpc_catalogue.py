from __future__ import annotations

import subprocess
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING

import grpc
import pytest
from google.protobuf import empty_pb2
from grpc_reflection.v1alpha import (  # type: ignore[import-untyped]  # publishes no types
    reflection_pb2,
    reflection_pb2_grpc,
)
from support.daemon import Daemon
from support.grpcdoor import MIB, announced, grpc_door, import_steps, package, refused
from support.payload_packages import varied

from sealcar import errors
from sealcar.v1 import keys_pb2, keys_pb2_grpc
from sealcar.v1 import package_store_pb2 as pb

if TYPE_CHECKING:
    from collections.abc import Iterator

    from support.grpcdoor import Door


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Daemon]:
    with Daemon(tmp_path_factory.mktemp("d")) as daemon:
        yield daemon


@pytest.fixture
def door(shared: Daemon) -> Iterator[Door]:
    with grpc_door(shared) as door:
        yield door


def test_an_import_tells_its_progress_and_can_be_got_and_verified(door: Door) -> None:
    data = {"model.onnx": varied(3 * MIB + 5), "more": b""}
    *steps, last = door.packages.Import(import_steps("whole", data))
    assert [step.progress.done for step in steps] == [MIB, 2 * MIB, 3 * MIB]
    assert last.imported.generation == 1
    assert len(last.imported.package_id) == 16
    got = door.packages.Get(pb.GetRequest(package=package("whole")))
    assert got.package_id == last.imported.package_id
    assert got.summary.current
    assert [(one.name, one.size) for one in got.variants[0].payloads] == [
        ("model.onnx", 3 * MIB + 5),
        ("more", 0),
    ]
    *_, verified = door.packages.Verify(pb.VerifyRequest(package=package("whole")))
    assert (verified.verified.payloads, verified.verified.size) == (2, 3 * MIB + 5)


def test_a_list_comes_in_pages_and_by_prefix(door: Door) -> None:
    for name in ("page-a", "page-b", "page-c"):
        list(door.packages.Import(import_steps(name, {"model.onnx": b"m"})))
    found, token = [], ""
    while True:
        request = pb.ListRequest(page_size=1, page_token=token, name_prefix="page-")
        page = door.packages.List(request)
        found += [one.package.name for one in page.packages]
        assert len(page.packages) <= 1
        token = page.next_page_token
        if not token:
            break
    assert found == ["page-a", "page-b", "page-c"]
    with refused(errors.InvalidRequestError, "page token"):
        door.packages.List(pb.ListRequest(page_token="no such"))  # noqa: S106  (a place in a list)


def test_a_version_can_be_imported_once(door: Door) -> None:
    list(door.packages.Import(import_steps("once", {"model.onnx": b"m"})))
    with refused(errors.AlreadyExistsError):
        list(door.packages.Import(import_steps("once", {"model.onnx": b"m"})))
    list(door.packages.Import(import_steps("once", {"model.onnx": b"m"}, version="2")))


@pytest.mark.parametrize(
    ("keep", "add", "error"),
    [
        (0, [], errors.WrongStateError),
        (0, [announced("model.onnx", 1)], errors.WrongStateError),
        (1, [pb.ImportRequest()], errors.WrongStateError),
        (1, [pb.ImportRequest(data=b"x")], errors.WrongStateError),
        (2, [pb.ImportRequest(data=b"")], errors.InvalidRequestError),
        (2, [pb.ImportRequest(data=bytes(MIB + 1))], errors.InvalidRequestError),
        (2, [pb.ImportRequest(data=b"xxxx")], errors.InvalidPackageError),
        (2, [pb.ImportRequest(finish=pb.ImportFinish(payloads=1))], errors.InvalidPackageError),
        (3, [], errors.WrongStateError),
        (3, [pb.ImportRequest(finish=pb.ImportFinish(payloads=2))], errors.InvalidPackageError),
        (3, [announced("MODEL.onnx", 1)], errors.AlreadyExistsError),
        (3, [announced("../model.onnx", 1)], errors.InvalidNameError),
    ],
)
def test_an_import_out_of_turn_is_refused_and_leaves_nothing(
    shared: Daemon,
    door: Door,
    keep: int,
    add: list[pb.ImportRequest],
    error: type[errors.SealcarError],
) -> None:
    steps = list(import_steps("broken", {"model.onnx": b"xyz"}))[:keep] + add
    with refused(error):
        list(door.packages.Import(iter(steps)))
    assert not (shared.store / "broken").exists()
    assert not list((shared.store / ".staging").iterdir())


# sends two payloads' worth of an import, and then nothing more
KILLED = """
import sys, threading, grpc
sys.path.insert(0, sys.argv[2])
from support.grpcdoor import import_steps
from sealcar.v1 import package_store_pb2_grpc
def steps():
    *kept, _ = import_steps("killed", {"model.onnx": bytes(5 << 20), "b": bytes(5 << 20)})
    yield from kept
    threading.Event().wait()
channel = grpc.insecure_channel("unix:" + sys.argv[1])
for answer in package_store_pb2_grpc.PackageStoreStub(channel).Import(steps()):
    print(answer.progress.done >> 20, flush=True)
"""


def test_an_import_whose_client_is_killed_leaves_nothing(shared: Daemon) -> None:
    tests = Path(__file__).parents[1]
    script = [sys.executable, "-c", KILLED, str(shared.socket / "grpc.sock"), str(tests)]
    staging = shared.store / ".staging"
    with subprocess.Popen(script, stdout=subprocess.PIPE, text=True) as client:
        assert client.stdout
        while int(client.stdout.readline()) < 8:
            pass
        assert list(staging.iterdir())
        client.kill()
    deadline = time.monotonic() + 30
    while list(staging.iterdir()):
        assert time.monotonic() < deadline
        time.sleep(0.05)
    assert not (shared.store / "killed").exists()


def test_a_message_over_the_limit_is_refused_and_the_next_call_served(door: Door) -> None:
    with pytest.raises(grpc.RpcError) as failed:
        list(door.packages.Import(iter([pb.ImportRequest(data=bytes(5 * MIB))])))
    assert failed.value.code() == grpc.StatusCode.RESOURCE_EXHAUSTED
    assert not door.packages.List(pb.ListRequest(name_prefix="none")).packages


@pytest.mark.parametrize(
    ("name", "error"),
    [
        ("unknown", errors.NotFoundError),
        ("", errors.InvalidNameError),
        ("../x", errors.InvalidNameError),
        ("/etc", errors.InvalidNameError),
        ("a\0b", errors.InvalidNameError),
        ("x" * 5000, errors.InvalidNameError),
    ],
)
def test_a_name_that_is_none_is_refused(
    door: Door, name: str, error: type[errors.SealcarError]
) -> None:
    with refused(error):
        door.packages.Get(pb.GetRequest(package=package(name)))


def test_a_damaged_payload_is_found_by_verify_with_its_name(door: Door, shared: Daemon) -> None:
    list(door.packages.Import(import_steps("bent", {"model.onnx": b"m" * 100})))
    (file,) = (shared.store / "bent").rglob("model.onnx")
    raw = bytearray(file.read_bytes())
    raw[60] ^= 1
    file.chmod(0o600)
    file.write_bytes(raw)
    with refused(errors.NotAuthenticError, "model.onnx"):
        list(door.packages.Verify(pb.VerifyRequest(package=package("bent"))))


def test_operators_ask_for_the_keys_on_the_admin_socket_only(shared: Daemon) -> None:
    def status(path: str) -> keys_pb2.KeysStatusResponse:
        with grpc.insecure_channel(f"unix:{path}") as channel:
            return keys_pb2_grpc.KeysStub(channel).Status(keys_pb2.KeysStatusRequest(), timeout=10)

    (kek,) = status(str(shared.admin / "admin.sock")).keks
    assert (kek.alias, kek.provider, kek.available, kek.problem) == ("default", "file", True, "")
    with pytest.raises(grpc.RpcError) as failed:
        status(str(shared.socket / "grpc.sock"))
    assert failed.value.code() == grpc.StatusCode.UNIMPLEMENTED


def test_a_lost_key_file_is_told_by_status(shared: Daemon) -> None:
    kek = shared.folder / "kek"
    kek.rename(kek.with_name("away"))
    try:
        with grpc.insecure_channel(f"unix:{shared.admin / 'admin.sock'}") as channel:
            answer = keys_pb2_grpc.KeysStub(channel).Status(keys_pb2.KeysStatusRequest())
    finally:
        kek.with_name("away").rename(kek)
    assert not answer.keks[0].available
    assert "kek" in answer.keks[0].problem


@pytest.mark.parametrize("name", ["admin", "listener"])
def test_the_services_can_be_listed_on_the_admin_socket_only(shared: Daemon, name: str) -> None:
    path = shared.admin / "admin.sock" if name == "admin" else shared.socket / "grpc.sock"
    with grpc.insecure_channel(f"unix:{path}") as channel:
        stub = reflection_pb2_grpc.ServerReflectionStub(channel)
        request = reflection_pb2.ServerReflectionRequest(list_services="")
        answers = stub.ServerReflectionInfo(iter([request]), timeout=10)
        if name == "listener":
            with pytest.raises(grpc.RpcError):
                next(answers)
        else:
            services = {each.name for each in next(answers).list_services_response.service}
            assert "sealcar.v1.Keys" in services
            answers.cancel()


def test_bytes_that_are_no_message_are_refused(shared: Daemon) -> None:
    with grpc.insecure_channel(f"unix:{shared.socket / 'grpc.sock'}") as channel:
        call = channel.unary_unary(
            "/sealcar.v1.PackageStore/Get",
            request_serializer=lambda raw: raw,
            response_deserializer=empty_pb2.Empty.FromString,
        )
        with pytest.raises(grpc.RpcError):
            call(b"\xff" * 100, timeout=10)
    with grpc_door(shared) as door:
        door.packages.List(pb.ListRequest())
