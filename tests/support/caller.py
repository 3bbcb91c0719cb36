"""Calls the daemon from a process of its own, as any uid: `call_as` runs this file as a program."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any, Final

import grpc
from google.protobuf import json_format
from grpc_status import rpc_status

import sealcar
import sealcar.catalogue
import sealcar.client
from sealcar import details
from sealcar.errors import SealcarError
from sealcar.v1 import (
    common_pb2,
    package_store_pb2,
    package_store_pb2_grpc,
    payloads_pb2,
    payloads_pb2_grpc,
)

_STUBS: Final = {
    "PackageStore": (package_store_pb2_grpc.PackageStoreStub, package_store_pb2),
    "Payloads": (payloads_pb2_grpc.PayloadsStub, payloads_pb2),
}
_TIMEOUT: Final = 30


def error_of(error: grpc.RpcError) -> SealcarError:
    """Return the error that the daemon put into a failed call."""
    status = rpc_status.from_call(error)
    assert status is not None, error
    detail = common_pb2.ErrorDetail()
    assert status.details[0].Unpack(detail)
    return details.from_detail(detail)


def call_as(uid: int, socket: Path, *calls: dict[str, Any], gid: int | None = None) -> list[Any]:
    """Make these calls as this uid, and return an outcome for each.

    A call is {"method": "PackageStore.Get", "request": {…}, "metadata": […]}, or over the data
    socket {"read": [package, component, variant, payload]}. An outcome has "answer", or "error",
    an error's class, with "message".
    """
    plan = {"uid": uid, "gid": uid if gid is None else gid, "socket": str(socket), "calls": calls}
    done = subprocess.run(
        [sys.executable, __file__],
        input=json.dumps(plan),
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    outcomes: list[Any] = json.loads(done.stdout)
    return outcomes


def _main() -> None:
    plan = json.load(sys.stdin)
    os.setgroups([])
    os.setresgid(plan["gid"], plan["gid"], plan["gid"])
    os.setresuid(plan["uid"], plan["uid"], plan["uid"])
    socket = Path(plan["socket"])
    json.dump([_outcome(socket, call) for call in plan["calls"]], sys.stdout)


def _outcome(socket: Path, call: dict[str, Any]) -> dict[str, Any]:
    try:
        return {"answer": _read(socket, call["read"]) if "read" in call else _rpc(socket, call)}
    except grpc.RpcError as error:
        found: Exception = error_of(error) if rpc_status.from_call(error) else error
    except SealcarError as error:
        found = error
    return {"error": type(found).__name__, "message": str(found)}


def _read(socket: Path, names: list[str]) -> str:
    with sealcar.connect(socket, peer_uid=0, timeout=_TIMEOUT) as client:
        return client.scope(*names[:3]).read(names[3]).hex()


def _rpc(socket: Path, call: dict[str, Any]) -> Any:  # noqa: ANN401  (JSON)
    service, method = call["method"].split(".")
    stub, messages = _STUBS[service]
    descriptor = messages.DESCRIPTOR.services_by_name[service].methods_by_name[method]
    kind = getattr(messages, descriptor.input_type.name)
    with grpc.insecure_channel(f"unix:{socket / 'grpc.sock'}") as channel:
        send = getattr(stub(channel), method)
        request: Any = call["request"]
        if descriptor.client_streaming:
            request = iter([json_format.ParseDict(each, kind()) for each in request])
        else:
            request = json_format.ParseDict(request, kind())
        metadata = [tuple(pair) for pair in call.get("metadata", [])]
        answer = send(request, timeout=_TIMEOUT, metadata=metadata)
        if descriptor.server_streaming:
            return [json_format.MessageToDict(each) for each in answer]
        return json_format.MessageToDict(answer)


if __name__ == "__main__":
    _main()
