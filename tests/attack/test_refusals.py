"""Who is refused: it is in the audit log and in a metric, and no flood of it fills a disk."""

from __future__ import annotations

import json
import os
import resource
import signal
import subprocess
import sys
import time
from contextlib import ExitStack
from typing import TYPE_CHECKING, Any

import pytest
from support.caller import call_as
from support.daemon import Daemon, environment, run_command
from support.payload_packages import COMPONENT, PACKAGE, VARIANT, publish, varied
from support.raw_clients import SCOPE, RawClient, descriptors, until

from sealcar.errors import ExhaustedError, RolledBackError
from sealcar.v1 import common_pb2, payloads_pb2
from sealcar.v1 import data_socket_pb2 as pb
from sealcar_server.access.audit.refusals import MOST, Refusals
from sealcar_server.transfer.rings import SIZE

if TYPE_CHECKING:
    from pathlib import Path

BIG = varied(20 << 20)
OTHER = 4601
READ = {"read": [PACKAGE, COMPONENT, VARIANT, "big"]}
SENDS = """
import socket, sys
socket.socket(fileno=int(sys.argv[1])).send(bytes.fromhex(sys.argv[2]))
"""


def started(tmp_path: Path, settings: dict[str, str] | None = None) -> Daemon:
    daemon = Daemon(tmp_path, reachable=True, settings=settings)
    daemon.grant(OTHER)
    daemon.start()
    with daemon.connect(peer_uid=os.geteuid()) as client:
        publish(client, {"big": BIG, "small": b"plain words"})
    return daemon


def lines(daemon: Daemon, event: str) -> list[dict[str, Any]]:
    files = sorted((daemon.folder / "state" / "audit").glob("*.jsonl"))
    found = [json.loads(line) for file in files for line in file.read_bytes().splitlines()]
    return [line for line in found if line["event"] == event]


def counted(daemon: Daemon, reason: str) -> int:
    return sum(line["count"] for line in lines(daemon, "refused") if line["reason"] == reason)


def test_refusals_have_a_line_a_second_and_none_is_left_out() -> None:
    written: list[tuple[str, int]] = []
    refusals = Refusals(lambda who, reason, count: written.append((f"{who} {reason}", count)))
    begun, noted = time.monotonic(), 0
    while time.monotonic() - begun < 2.2:
        for _ in range(100):
            refusals.note({"uid": 1}, "requests")
            noted += 1
        refusals.flush()
        time.sleep(0.01)
    refusals.flush(all_of_it=True)
    assert sum(count for _, count in written) == noted
    assert len(written) <= 5
    for uid in range(1000):
        refusals.note({"uid": uid}, "sender")
    refusals.flush(all_of_it=True)
    assert sum(count for _, count in written) == noted + 1000
    assert len(written) <= MOST + 7


@pytest.mark.root
def test_requests_over_the_rate_are_counted_in_the_log(tmp_path: Path) -> None:
    with started(tmp_path, {"limits.requests": "20"}) as daemon:
        with daemon.connect(peer_uid=os.geteuid()) as client:
            scope = client.scope(PACKAGE, COMPONENT, VARIANT)
            refused = 0
            for _ in range(600):
                try:
                    scope.read("small")
                except ExhaustedError:
                    refused += 1
        until(lambda: counted(daemon, "requests") == refused)
        assert daemon.metric("sealcar_refusals_total", reason="requests") == refused
        found = lines(daemon, "refused")
        assert found[0]["account"] == f"uid {os.geteuid()}"
        assert len(found) < 20 < refused
        files = sorted((daemon.folder / "state" / "audit").glob("*.jsonl"))
        done = run_command(
            "audit", "verify", "--config", str(daemon.config), *[str(file) for file in files]
        )
        assert done.returncode == 0, done.stderr


@pytest.mark.root
def test_whoever_sends_on_the_socket_of_another_is_in_the_log(tmp_path: Path) -> None:
    state = pb.ClientPacket(state=pb.StateRequest()).SerializeToString().hex()
    with started(tmp_path) as daemon, RawClient(daemon) as client:
        number = client.sock.fileno()
        arguments = [sys.executable, "-c", SENDS, str(number), state]
        subprocess.run(arguments, pass_fds=[number], check=True, env=environment())
        assert client.error().reason == common_pb2.ERROR_REASON_DENIED
        (line,) = lines(daemon, "refused")
        assert (line["reason"], line["uid"], line["count"]) == ("sender", os.geteuid(), 1)
        assert daemon.metric("sealcar_refusals_total", reason="sender") == 1


@pytest.mark.root
def test_connections_of_one_uid_end_at_their_limit_and_others_go_on(tmp_path: Path) -> None:
    with started(tmp_path, {"limits.connections": "6"}) as daemon, ExitStack() as stack:
        for _ in range(6):
            stack.enter_context(RawClient(daemon))
        one_more = stack.enter_context(RawClient(daemon, attest=False))
        assert one_more.error().reason == common_pb2.ERROR_REASON_EXHAUSTED
        (answer,) = call_as(OTHER, daemon.socket, READ)
        assert bytes.fromhex(answer["answer"]) == BIG
        assert counted(daemon, "connections") == 1


@pytest.mark.root
def test_transfers_of_one_uid_end_at_their_limit_and_others_go_on(tmp_path: Path) -> None:
    with started(tmp_path, {"limits.transfers": "3"}) as daemon, ExitStack() as stack:
        busy = [stack.enter_context(RawClient(daemon)) for _ in range(3)]
        for client in busy[:2]:
            client.start_read("big")
        busy[2].start_write("written")
        reader, writer = (stack.enter_context(RawClient(daemon)) for _ in range(2))
        reader.read("big")
        assert reader.error().reason == common_pb2.ERROR_REASON_EXHAUSTED
        begin = payloads_pb2.BeginRequest(scope=SCOPE)
        begin.scope.variant = "more"
        writer.send(pb.ClientPacket(begin=begin))
        transaction = writer.packet().begun.transaction
        kind = common_pb2.PAYLOAD_KIND_BLOB
        write = payloads_pb2.WriteBegin(transaction=transaction, name="x", kind=kind)
        writer.send(pb.ClientPacket(write=write))
        assert writer.error().reason == common_pb2.ERROR_REASON_EXHAUSTED
        # what is small isn't counted, and whoever was refused goes on when others have ended
        reader.read("small")
        assert reader.packet().reading.data == b"plain words"
        (answer,) = call_as(OTHER, daemon.socket, READ)
        assert bytes.fromhex(answer["answer"]) == BIG
        busy[0].close()
        until(lambda: daemon.metric("sealcar_rings") == 2)
        reader.start_read("big")
        assert daemon.metric("sealcar_refusals_total", reason="transfers") == 2


@pytest.mark.root
def test_rings_of_one_uid_end_at_their_share_and_others_go_on(tmp_path: Path) -> None:
    settings = {"transfer.memory_limit": "32MiB", "transfer.wait": "1"}
    with started(tmp_path, settings) as daemon, ExitStack() as stack:
        share = (32 << 20) * 3 // 4 // SIZE
        for _ in range(share):
            stack.enter_context(RawClient(daemon)).start_read("big")
        late = stack.enter_context(RawClient(daemon))
        late.read("big")
        (answer,) = call_as(OTHER, daemon.socket, READ)
        assert bytes.fromhex(answer["answer"]) == BIG
        assert late.error().reason == common_pb2.ERROR_REASON_EXHAUSTED


@pytest.mark.root
def test_a_pin_that_is_raised_ends_what_is_older_and_is_accounted_for(tmp_path: Path) -> None:
    with started(tmp_path) as daemon, RawClient(daemon) as under_way:
        under_way.start_read("big")
        with daemon.policy.open("a") as file:
            file.write(f'\n[[pin]]\npackage = "{PACKAGE}"\nmin_generation = 2\n')
        assert daemon.process
        daemon.process.send_signal(signal.SIGHUP)
        assert under_way.error().reason == common_pb2.ERROR_REASON_ROLLED_BACK
        with daemon.connect(peer_uid=os.geteuid()) as client, pytest.raises(RolledBackError):
            client.scope(PACKAGE, COMPONENT, VARIANT).read("small")
        found = lines(daemon, "rolled-back")
        assert found
        assert (found[0]["package"], found[0]["uid"]) == (PACKAGE, os.geteuid())
        assert "older than 2" in found[0]["reason"]
        assert daemon.metric("sealcar_rolled_back_total") == len(found)


@pytest.mark.root
def test_without_a_descriptor_left_who_is_connected_is_served_and_others_are_later(
    tmp_path: Path,
) -> None:
    state = pb.ClientPacket(state=pb.StateRequest())
    with started(tmp_path) as daemon, RawClient(daemon) as connected, ExitStack() as stack:
        _, most = resource.prlimit(daemon.pid, resource.RLIMIT_NOFILE)
        few = descriptors(daemon.pid) + 8
        resource.prlimit(daemon.pid, resource.RLIMIT_NOFILE, (few, most))
        for _ in range(20):
            stack.enter_context(RawClient(daemon, attest=False))
        until(lambda: any("can't be accepted" in str(line.get("event")) for line in daemon.log))
        for _ in range(20):
            connected.send(state)
            assert connected.packet().state.serving
        resource.prlimit(daemon.pid, resource.RLIMIT_NOFILE, (most, most))
        (answer,) = call_as(OTHER, daemon.socket, READ)
        assert bytes.fromhex(answer["answer"]) == BIG
