"""A policy that changes while the daemon runs: what is taken away ends, and nothing half counts."""

from __future__ import annotations

import contextlib
import os
import signal
from typing import TYPE_CHECKING

import pytest
from support.caller import call_as
from support.daemon import Daemon, run_command
from support.grpcdoor import grpc_door, pieces, refused, scope, write_steps
from support.payload_packages import COMPONENT, PACKAGE, VARIANT, publish, varied
from support.raw_clients import RawClient, until

from sealcar import errors
from sealcar.v1 import common_pb2, payloads_pb2
from sealcar.v1 import data_socket_pb2 as pb
from sealcar_server.access.grants import overflow_id

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from sealcar.catalogue import Progress

BIG = varied(48 << 20)
READER, OTHER = 4201, 4202
PIECE = 1 << 20


@pytest.fixture
def daemon(tmp_path: Path) -> Iterator[Daemon]:
    with Daemon(tmp_path, reachable=True) as daemon:
        with daemon.connect(peer_uid=os.geteuid()) as client:
            publish(client, {"big": BIG, "small": b"plain words"})
        yield daemon


def generation(daemon: Daemon) -> float:
    return daemon.metric("sealcar_policy_generation")


def put(daemon: Daemon, *grants: str) -> None:
    """Put another policy in force, as an operator would."""
    before = generation(daemon)
    daemon.policy.write_text("\n\n".join(f"[[grant]]\n{grant}" for grant in grants))
    assert daemon.process
    daemon.process.send_signal(signal.SIGHUP)
    until(lambda: generation(daemon) > before)


def grant(uid: int, rights: str = '["read"]', more: str = "") -> str:
    return f'uid = {uid}\npackages = ["*"]\nrights = {rights}\n{more}'


ME = os.geteuid()
EVERYTHING = grant(ME, '["list", "read", "write", "import", "verify"]')
WITHOUT_READ = grant(ME, '["list", "write"]')
WITHOUT_WRITE = WITHOUT_VERIFY = grant(ME, '["read"]')


def test_a_read_under_way_ends_when_its_grant_is_taken_away(daemon: Daemon) -> None:
    with RawClient(daemon) as client:
        client.start_read("big")
        put(daemon, WITHOUT_READ)
        error = client.error()
        assert error.reason == common_pb2.ERROR_REASON_DENIED
        assert "taken away" in error.message
        client.read("small")
        assert client.error().reason == common_pb2.ERROR_REASON_DENIED


def test_a_read_under_way_goes_on_when_another_grant_is_taken_away(daemon: Daemon) -> None:
    put(daemon, EVERYTHING, grant(OTHER))
    with RawClient(daemon) as client:
        client.start_read("big")
        put(daemon, EVERYTHING)
        while (packet := client.packet()).WhichOneof("packet") == "piece":
            client.free(packet.piece.slot)
        assert packet.done.size == len(BIG)


def test_a_stream_under_way_ends_when_its_grant_is_taken_away(daemon: Daemon) -> None:
    request = payloads_pb2.ReadRequest(scope=scope(PACKAGE, COMPONENT, VARIANT), name="big")
    with grpc_door(daemon) as door:
        answers = door.payloads.Read(request)
        assert next(answers).data
        put(daemon, WITHOUT_READ)
        with refused(errors.DeniedError, "taken away"):
            list(answers)


def test_a_write_under_way_and_its_transaction_end_with_the_grant(daemon: Daemon) -> None:
    with RawClient(daemon) as client:
        transaction = client.start_write("blob")
        put(daemon, WITHOUT_WRITE)
        error = client.error()
        assert error.reason == common_pb2.ERROR_REASON_DENIED
        assert "taken away" in error.message
        until(lambda: not list(daemon.store.glob("**/written")))
        put(daemon, EVERYTHING)
        commit = payloads_pb2.CommitRequest(transaction=transaction, payloads=0)
        client.send(pb.ClientPacket(commit=commit))
        assert "aborted" in client.error().message


def test_a_streamed_write_ends_with_the_grant(daemon: Daemon) -> None:
    begin = payloads_pb2.BeginRequest(scope=scope(PACKAGE, COMPONENT, "w"))

    def data() -> Iterator[bytes]:
        yield BIG[:PIECE]
        put(daemon, WITHOUT_WRITE)
        yield from pieces(BIG)

    with grpc_door(daemon) as door:
        transaction = door.payloads.Begin(begin).transaction
        with refused(errors.DeniedError, "taken away"):
            door.payloads.Write(write_steps(transaction, "model.onnx", data()))
        # whoever may write again finds the transaction gone
        put(daemon, EVERYTHING)
        commit = payloads_pb2.CommitRequest(transaction=transaction, payloads=0)
        with refused(errors.WrongStateError, "aborted"):
            door.payloads.Commit(commit)


@pytest.mark.parametrize(
    "text",
    ["[[grant", '[[grant]]\nuid = 0\npackages = ["*"]\nrights = ["everything"]', "x" * (2 << 20)],
    ids=["cut", "wrong", "huge"],
)
def test_a_broken_file_keeps_the_old_grants_and_raises_a_metric(daemon: Daemon, text: str) -> None:
    before = generation(daemon)
    good = daemon.policy.read_text()
    daemon.policy.write_text(text)
    until(lambda: daemon.metric("sealcar_policy_broken") == 1)
    with daemon.connect(peer_uid=ME) as client:
        assert client.scope(PACKAGE, COMPONENT, VARIANT).read("small") == b"plain words"
    assert generation(daemon) == before
    assert [line for line in daemon.log if line["event"] == "policy not reloaded"]
    daemon.policy.write_text(good)
    until(lambda: daemon.metric("sealcar_policy_broken") == 0)
    assert generation(daemon) > before


def test_a_file_that_others_can_write_keeps_the_old_grants(daemon: Daemon) -> None:
    daemon.policy.chmod(0o666)
    until(lambda: daemon.metric("sealcar_policy_broken") == 1)
    with daemon.connect(peer_uid=ME) as client:
        assert client.scope(PACKAGE, COMPONENT, VARIANT).read("small") == b"plain words"


def test_a_missing_file_keeps_the_old_grants(daemon: Daemon) -> None:
    daemon.policy.unlink()
    until(lambda: daemon.metric("sealcar_policy_broken") == 1)
    with daemon.connect(peer_uid=ME) as client:
        assert client.scope(PACKAGE, COMPONENT, VARIANT).read("small") == b"plain words"


def test_a_swapped_link_is_a_change(tmp_path: Path) -> None:
    daemon = Daemon(tmp_path, reachable=True)
    # as Kubernetes mounts a Secret: all may make things there, and replace their own only
    volume = daemon.folder / "volume"
    volume.mkdir()
    volume.chmod(0o1777)
    for name, rights in (("..first", '["list"]'), ("..second", '["import"]')):
        folder = volume / name
        folder.mkdir()
        folder.joinpath("policy.toml").write_text(f"[[grant]]\n{grant(ME, rights)}")
    volume.joinpath("..data").symlink_to("..first")
    volume.joinpath("policy.toml").symlink_to("..data/policy.toml")
    daemon.settings["policy.file"] = str(volume / "policy.toml")
    with daemon:
        before = generation(daemon)
        volume.joinpath("..data_tmp").symlink_to("..second")
        volume.joinpath("..data_tmp").rename(volume / "..data")
        until(lambda: generation(daemon) > before)


@pytest.mark.root
def test_a_new_grant_counts_without_a_restart_and_for_its_caller_only(daemon: Daemon) -> None:
    read = {"read": [PACKAGE, COMPONENT, VARIANT, "small"]}
    (before,) = call_as(READER, daemon.socket, read)
    assert before["error"] == "NotFoundError"
    put(daemon, EVERYTHING, grant(READER))
    (after,) = call_as(READER, daemon.socket, read)
    assert bytes.fromhex(after["answer"]) == b"plain words"
    (other,) = call_as(OTHER, daemon.socket, read)
    assert other["error"] == "NotFoundError"


@pytest.mark.root
def test_a_grant_for_another_listener_gives_nothing(daemon: Daemon) -> None:
    put(daemon, EVERYTHING, grant(READER, more='listener = "tenant-a"'))
    read = {"read": [PACKAGE, COMPONENT, VARIANT, "small"]}
    (outcome,) = call_as(READER, daemon.socket, read)
    assert outcome["error"] == "NotFoundError"
    put(daemon, EVERYTHING, grant(READER, more='listener = "default"'))
    (outcome,) = call_as(READER, daemon.socket, read)
    assert bytes.fromhex(outcome["answer"]) == b"plain words"


@pytest.mark.root
def test_whom_the_kernel_can_not_name_matches_no_grant(daemon: Daemon) -> None:
    nobody = overflow_id("uid")
    put(daemon, EVERYTHING, 'gid = 4300\npackages = ["*"]\nrights = ["read"]')
    read = {"read": [PACKAGE, COMPONENT, VARIANT, "small"]}
    (member,) = call_as(READER, daemon.socket, read, gid=4300)
    assert bytes.fromhex(member["answer"]) == b"plain words"
    (unnamed,) = call_as(nobody, daemon.socket, read, gid=4300)
    assert unnamed["error"] == "NotFoundError"


@pytest.mark.parametrize("kind", ["uid", "gid"])
def test_a_grant_to_whom_the_kernel_can_not_name_is_refused(tmp_path: Path, kind: str) -> None:
    file = tmp_path / "policy.toml"
    file.write_text(f'[[grant]]\n{kind} = {overflow_id(kind)}\npackages = ["*"]\nrights = ["read"]')
    done = run_command("policy", "check", str(file))
    assert done.returncode == 2
    assert "never matches" in done.stderr


def test_a_check_of_a_package_ends_with_the_grant(daemon: Daemon) -> None:
    taken: list[int] = []

    def take_away(progress: Progress) -> None:
        if not taken:
            taken.append(progress.done)
            put(daemon, WITHOUT_VERIFY)

    with daemon.connect(peer_uid=ME) as client:
        with contextlib.suppress(errors.DeniedError):
            client.catalogue.verify(PACKAGE, progress=take_away)
        assert taken
        # that one may have been faster than the change; the next can't begin after it
        with pytest.raises(errors.DeniedError):
            client.catalogue.verify(PACKAGE)
