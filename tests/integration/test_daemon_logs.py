from __future__ import annotations

import json
import os
import subprocess
import time
from typing import TYPE_CHECKING

import grpc
import pytest
from support.daemon import Daemon, environment
from support.payload_packages import publish
from support.raw_clients import RawClient

from sealcar.errors import NotFoundError
from sealcar.v1 import common_pb2, package_store_pb2, package_store_pb2_grpc
from sealcar.v1 import data_socket_pb2 as pb

if TYPE_CHECKING:
    from pathlib import Path


def test_every_line_is_one_json_object_with_time_level_and_source(daemon: Daemon) -> None:
    with daemon.connect() as client:
        publish(client, {"blob": b"plain words"})
        with pytest.raises(NotFoundError):
            client.catalogue.get("absent")
    assert daemon.stop() == 0
    lines = daemon.log_path.read_text().splitlines()
    assert len(lines) > 3
    for line in lines:
        assert {"event", "level", "logger", "timestamp"} <= set(json.loads(line)), line


def test_a_refused_call_is_logged_with_its_method_and_code(daemon: Daemon) -> None:
    with daemon.connect() as client:
        with pytest.raises(NotFoundError) as refused:
            client.catalogue.get("absent")
        with pytest.raises(NotFoundError) as also:
            client.scope("absent", "c", "v").open()
    (line,) = [line for line in daemon.log if line["event"] == "call refused"]
    assert (line["method"], line["code"]) == ("PackageStore.Get", "NOT_FOUND")
    assert "absent" in line["error"]
    # by it whoever has a client's error finds the line
    assert line["request_id"] == refused.value.request_id
    (line,) = [line for line in daemon.log if line["event"] == "request refused"]
    assert (line["request"], line["uid"]) == ("open", os.geteuid())
    assert str(also.value).endswith(f"(request {line['request_id']})")


def test_a_line_carries_the_id_of_its_request_the_callers_own_if_it_is_fit_for_a_log(
    daemon: Daemon,
) -> None:
    request = package_store_pb2.GetRequest(package=common_pb2.PackageRef(name="absent"))
    told: list[str | bytes] = []
    brought = ["trace-1_A", "", "x" * 65, 'a"b', "a b", "é".encode().hex() + "!"]
    with grpc.insecure_channel(f"unix:{daemon.socket / 'grpc.sock'}") as channel:
        packages = package_store_pb2_grpc.PackageStoreStub(channel)
        for one in brought:
            with pytest.raises(grpc.RpcError) as refused:
                packages.Get(request, metadata=(("x-request-id", one),))
            assert isinstance(refused.value, grpc.Call)
            told.append(dict(refused.value.trailing_metadata() or ())["x-request-id"])
    logged = [line["request_id"] for line in daemon.log if line["event"] == "call refused"]
    assert logged == told
    assert told[0] == brought[0]
    assert not set(told[1:]) & set(brought)
    assert len(set(told)) == len(brought)
    assert all("request_id" not in line for line in daemon.log if line["event"] == "serving")


def test_a_flood_of_refusals_is_counted_in_a_few_lines(daemon: Daemon) -> None:
    with daemon.connect() as client:
        scope = client.scope("absent", "c", "v")
        for ask in (lambda: client.catalogue.get("absent"), scope.open):
            for _ in range(150):
                with pytest.raises(NotFoundError):
                    ask()
        # by then there is a line again
        time.sleep(1.1)
        for ask in (lambda: client.catalogue.get("absent"), scope.open):
            with pytest.raises(NotFoundError):
                ask()
    log = daemon.log
    for event in ("call refused", "request refused"):
        lines = [line for line in log if line["event"] == event]
        assert 100 < len(lines) < 120
        assert len(lines) + sum(line.get("left_out", 0) for line in lines) == 151
    assert {line["account"] for line in log if line["event"] == "call refused"} == {
        f"uid {os.geteuid()}"
    }


def test_what_is_logged_for_a_request_of_the_data_socket_carries_an_id(daemon: Daemon) -> None:
    with daemon.connect() as client:
        publish(client, {"blob": b"plain words"})
    (manifest,) = daemon.store.rglob("manifest.json")
    (manifest.parent / "c" / "v" / "blob").write_bytes(b"damaged")
    with RawClient(daemon) as raw:
        raw.read("blob")
        assert raw.error().message
        raw.send(pb.ClientPacket(ring_mapped=pb.RingMapped()))
        assert raw.closed()
    (line,) = [line for line in daemon.log if line["event"] == "client broke the protocol"]
    assert len(line["request_id"]) == 16


def test_no_line_holds_what_a_payload_holds(daemon: Daemon) -> None:
    secret = b"no-log-line-may-ever-hold-this"
    with daemon.connect() as client:
        publish(client, {"blob": secret * 1000})
        assert client.scope("m", "c", "v").read("blob") == secret * 1000
    assert daemon.stop() == 0
    assert secret not in daemon.log_path.read_bytes()


def test_the_least_severity_can_be_set(tmp_path: Path) -> None:
    settings = {"log.level": "error", "metrics.address": "off"}
    daemon = Daemon(tmp_path, settings=settings)
    with subprocess.Popen(daemon.command(), env=environment(), stderr=subprocess.PIPE) as process:
        assert process.stderr
        with daemon.connect(timeout=30) as client:
            assert client.state().serving
        process.terminate()
        assert process.stderr.read() == b""
    assert process.returncode == 0


def test_text_for_people_can_be_had(tmp_path: Path) -> None:
    settings = {"log.format": "console", "metrics.address": "off"}
    daemon = Daemon(tmp_path, settings=settings)
    with subprocess.Popen(daemon.command(), env=environment(), stderr=subprocess.PIPE) as process:
        assert process.stderr
        with daemon.connect(timeout=30) as client:
            client.state()
        process.terminate()
        said = process.stderr.read().decode()
    assert process.returncode == 0
    assert "serving" in said
    assert not said.startswith("{")
