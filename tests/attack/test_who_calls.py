"""Who calls is what the kernel says, on both doors; nothing that a client sends changes it."""

from __future__ import annotations

import contextlib
import json
import os
import re
import socket
from typing import TYPE_CHECKING, Any

import grpc
import pytest
from support.caller import call_as, error_of
from support.daemon import Daemon, run_command
from support.payload_packages import COMPONENT, PACKAGE, VARIANT, publish

import sealcar
from sealcar.errors import DeniedError
from sealcar.v1 import data_socket_pb2 as data
from sealcar.v1 import package_store_pb2 as pb
from sealcar.v1 import package_store_pb2_grpc

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

STRANGER, LISTER, READER, WRITER, OTHER_WRITER = 4101, 4102, 4103, 4104, 4105
GET = {"method": "PackageStore.Get", "request": {"package": {"name": PACKAGE}}}
LIST: dict[str, Any] = {"method": "PackageStore.List", "request": {}}
SCOPE = {"package": {"name": PACKAGE}, "component": COMPONENT, "variant": VARIANT}
READ = {"method": "Payloads.Read", "request": {"scope": SCOPE, "name": "blob"}}
BEGIN = {"method": "Payloads.Begin", "request": {"scope": SCOPE}}
VERIFY = {"method": "PackageStore.Verify", "request": {"package": {"name": PACKAGE}}}
ATTEST = data.ClientPacket(attest=data.Attest(protocol=1, release="x"))
DATA_READ = {"read": [PACKAGE, COMPONENT, VARIANT, "blob"]}
IMPORT = {
    "method": "PackageStore.Import",
    "request": [{"begin": {"package": {"name": PACKAGE}, "manifestJson": "{}"}}],
}


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Daemon]:
    """A daemon that every uid can connect to, with one package."""
    daemon = Daemon(tmp_path_factory.mktemp("shared"), reachable=True)
    daemon.grant(LISTER, [PACKAGE], ["list"])
    daemon.grant(READER, [PACKAGE], ["read"])
    for writer in (WRITER, OTHER_WRITER):
        daemon.grant(writer, [PACKAGE], ["write"])
    with daemon:
        with daemon.connect(peer_uid=os.geteuid()) as client:
            publish(client, {"blob": b"plain words"})
        yield daemon


@pytest.mark.root
def test_without_a_grant_a_package_can_not_be_told_from_one_that_does_not_exist(
    shared: Daemon,
) -> None:
    calls = (GET, READ, BEGIN, VERIFY, IMPORT, DATA_READ)
    before = shared.metric("sealcar_denials_total", rule="unknown")
    forbidden = call_as(STRANGER, shared.socket, *calls)
    unknown = call_as(STRANGER, shared.socket, *[_renamed(call, "unknown") for call in calls])
    assert [one["error"] for one in forbidden] == ["NotFoundError"] * len(calls)
    assert [_without_id(one["message"]) for one in forbidden] == [
        _without_id(one["message"]).replace("unknown", PACKAGE) for one in unknown
    ]
    after = shared.metric("sealcar_denials_total", rule="unknown")
    assert after - before == 2 * len(calls)


def _without_id(message: str) -> str:
    """Return a message without the random number of its request, which it must end with."""
    said, found = re.subn(r" \(request [0-9a-f]{16}\)$", "", message)
    assert found == 1
    return said


@pytest.mark.root
def test_without_a_grant_nothing_is_listed(shared: Daemon) -> None:
    (nothing,) = call_as(STRANGER, shared.socket, LIST)
    assert nothing["answer"] == {}
    (one,) = call_as(LISTER, shared.socket, LIST)
    assert [each["package"]["name"] for each in one["answer"]["packages"]] == [PACKAGE]


@pytest.mark.root
def test_whoever_may_only_list_is_denied_the_rest(shared: Daemon) -> None:
    before = shared.metric("sealcar_denials_total", rule="right")
    got, *rest = call_as(LISTER, shared.socket, GET, READ, BEGIN, VERIFY, IMPORT, DATA_READ)
    assert "answer" in got
    assert [one["error"] for one in rest] == ["DeniedError"] * 5
    assert "uid 4102" in rest[0]["message"]
    assert shared.metric("sealcar_denials_total", rule="right") - before == 5


@pytest.mark.root
def test_a_reader_reads_through_both_doors_and_may_not_write(shared: Daemon) -> None:
    grpc_read, data_read, begin = call_as(READER, shared.socket, READ, DATA_READ, BEGIN)
    assert bytes.fromhex(data_read["answer"]) == b"plain words"
    assert len(grpc_read["answer"]) == 1
    assert begin["error"] == "DeniedError"


@pytest.mark.root
@pytest.mark.parametrize(
    "metadata",
    [
        [["uid", "0"], ["gid", "0"]],
        [["x-sealcar-uid", "0"], ["x-forwarded-for", "unix:/inner/name"]],
        [["authorization", "Bearer root"], [":peer", "unix:root"]],
    ],
    ids=["uid", "headers", "token"],
)
def test_metadata_claims_nothing(shared: Daemon, metadata: list[list[str]]) -> None:
    (outcome,) = call_as(STRANGER, shared.socket, {**GET, "metadata": metadata})
    assert outcome["error"] in ("NotFoundError", "_InactiveRpcError")


def test_the_inner_socket_serves_nobody_who_did_not_come_through_the_relay(daemon: Daemon) -> None:
    inner = daemon.folder / "state" / "inner" / "grpc.sock"
    with grpc.insecure_channel(f"unix:{inner}") as channel:
        stub = package_store_pb2_grpc.PackageStoreStub(channel)
        with pytest.raises(grpc.RpcError) as refused:
            stub.List(pb.ListRequest(), timeout=10)
    assert isinstance(error_of(refused.value), DeniedError)


def test_nobody_else_can_reach_the_inner_sockets_directory(daemon: Daemon) -> None:
    inner = daemon.folder / "state" / "inner"
    assert inner.stat().st_mode & 0o777 == 0o700
    # names that the relay binds are gone as soon as they are connected
    with daemon.connect() as client:
        client.catalogue.list()
        assert [path.name for path in inner.iterdir()] == ["grpc.sock"]


@pytest.mark.root
def test_with_isolation_by_uid_the_daemons_own_uid_is_refused_on_both_doors(
    tmp_path: Path,
) -> None:
    daemon = Daemon(tmp_path, reachable=True, settings={"daemon.isolation": "uid"})
    daemon.policy.write_text("")
    daemon.grant(READER)
    with daemon:
        (own,) = call_as(0, daemon.socket, LIST)
        assert own["error"] == "DeniedError"
        assert "uid 0 is the daemon's own" in own["message"]
        with (
            pytest.raises(DeniedError, match="own"),
            sealcar.connect(daemon.socket, peer_uid=0, timeout=10) as client,
        ):
            client.scope(PACKAGE, COMPONENT, VARIANT).read("blob")
        (other,) = call_as(READER, daemon.socket, LIST)
        assert other["answer"] == {}
        assert daemon.metric("sealcar_denials_total", rule="own-uid") >= 2
        assert daemon.metric("sealcar_isolation", mode="uid") == 1


@pytest.mark.root
def test_the_daemons_own_uid_is_told_the_state_and_gets_nothing_else(tmp_path: Path) -> None:
    settings = {"daemon.isolation": "uid", "limits.connections": "8"}
    daemon = Daemon(tmp_path, reachable=True, settings=settings)
    daemon.policy.write_text("")
    daemon.grant(READER)
    with daemon:
        for kind in ("--probe=live", "--probe=ready"):
            done = run_command("status", kind, SEALCAR_SOCKET=str(daemon.socket))
            assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
        assert daemon.metric("sealcar_denials_total", rule="own-uid") == 0
        packets = data.ClientPacket.DESCRIPTOR.oneofs_by_name["packet"].fields
        others = [one.name for one in packets if one.name != "state"]
        for name in others:
            assert "uid 0 is the daemon's own" in _refusal_of(daemon, name)
        assert daemon.metric("sealcar_denials_total", rule="own-uid") == len(others)
        # nor more connections than anybody
        with contextlib.ExitStack() as stack:
            for _ in range(8):
                assert _answer(stack.enter_context(_connected(daemon)), ATTEST).HasField("attested")
            refused = stack.enter_context(_connected(daemon))
            assert _answer(refused).error.message == "too many connections are open"


def _refusal_of(daemon: Daemon, name: str) -> str:
    """Attest, ask for the state and then for something else; return the answer to that."""
    other = data.ClientPacket()
    getattr(other, name).SetInParent()
    with _connected(daemon) as sock:
        _answer(sock, ATTEST)
        _answer(sock, data.ClientPacket(state=data.StateRequest()))
        said = _answer(sock, other)
        assert sock.recv(1) == b""
    return said.error.message


def _connected(daemon: Daemon) -> socket.socket:
    sock = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    sock.settimeout(10)
    sock.connect(str(daemon.socket / "data.sock"))
    return sock


def _answer(sock: socket.socket, *packets: data.ClientPacket) -> data.DaemonPacket:
    for packet in packets:
        sock.send(packet.SerializeToString())
    return data.DaemonPacket.FromString(sock.recv(1 << 16))


@pytest.mark.root
def test_a_thousand_connections_of_one_uid_keep_no_other_uid_out(shared: Daemon) -> None:
    idle = []
    try:
        for _ in range(1000):
            connection = socket.socket(socket.AF_UNIX)
            connection.connect(str(shared.socket / "grpc.sock"))
            idle.append(connection)
        (other,) = call_as(LISTER, shared.socket, LIST)
        assert "answer" in other
    finally:
        for connection in idle:
            connection.close()
    with shared.connect(peer_uid=0) as client:
        assert len(list(client.catalogue.list())) == 1


@pytest.mark.root
def test_a_transaction_belongs_to_its_principal(shared: Daemon) -> None:
    (begun,) = call_as(WRITER, shared.socket, BEGIN)
    request = {"transaction": begun["answer"]["transaction"], "payloads": 7}
    commit = {"method": "Payloads.Commit", "request": request}
    (other,) = call_as(OTHER_WRITER, shared.socket, commit)
    assert other["error"] == "NotFoundError"
    (own,) = call_as(WRITER, shared.socket, commit)
    assert own["error"] == "InvalidRequestError"


def _renamed(call: dict[str, Any], name: str) -> dict[str, Any]:
    return json.loads(json.dumps(call).replace(f'"{PACKAGE}"', f'"{name}"'))  # type: ignore[no-any-return]
