from __future__ import annotations

import os
import signal
import socket
import subprocess
import time
from typing import TYPE_CHECKING

import grpc
import pytest
from grpc_health.v1 import (  # type: ignore[import-untyped]  # publishes no types
    health_pb2,
    health_pb2_grpc,
)
from support.caller import error_of
from support.daemon import Daemon, environment
from support.payload_packages import COMPONENT, PACKAGE, VARIANT, publish, varied
from support.raw_clients import RawClient

from sealcar.errors import UnavailableError
from sealcar.v1 import (
    common_pb2,
    data_socket_pb2,
    package_store_pb2_grpc,
    payloads_pb2,
    payloads_pb2_grpc,
)
from sealcar.v1 import package_store_pb2 as pb

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

SCOPE = common_pb2.Scope(
    package=common_pb2.PackageRef(name=PACKAGE), component=COMPONENT, variant=VARIANT
)


def run_another(daemon: Daemon, *flags: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [*daemon.command(), *flags],
        env=environment(),
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


def test_sigterm_ends_it_with_0_and_nothing_is_left(daemon: Daemon) -> None:
    with daemon.connect() as client:
        client.state()
    assert daemon.stop() == 0
    assert [line["event"] for line in daemon.log[-2:]] == ["draining", "stopped"]
    sockets = [path for path in daemon.folder.rglob("*") if path.is_socket()]
    assert not sockets


def test_sigint_ends_it_too(daemon: Daemon) -> None:
    assert daemon.process
    daemon.process.send_signal(signal.SIGINT)
    assert daemon.process.wait(30) == 0


def test_a_second_daemon_refuses_and_the_first_serves_on(daemon: Daemon) -> None:
    second = run_another(daemon)
    assert second.returncode == 8
    assert f"another daemon (pid {daemon.pid}) serves in" in second.stderr
    assert "stop it first" in second.stderr
    with daemon.connect() as client:
        assert client.state().serving


def test_a_second_daemon_with_another_state_can_not_take_a_live_listener(daemon: Daemon) -> None:
    flags = [f"--set=daemon.state_dir={daemon.folder}/other"]
    second = run_another(daemon, *flags, f"--set=admin.dir={daemon.folder}/other-admin")
    assert second.returncode == 8
    assert f"serves in {daemon.socket}" in second.stderr
    with daemon.connect() as client:
        assert client.state().serving


def test_after_kill_9_a_new_daemon_replaces_the_stale_sockets(daemon: Daemon) -> None:
    with daemon.connect() as client:
        publish(client, {"blob": b"kept"})
    daemon.kill()
    assert (daemon.socket / "grpc.sock").is_socket()
    assert (daemon.socket / "data.sock").is_socket()
    daemon.start()
    with daemon.connect() as client:
        assert client.scope(PACKAGE, COMPONENT, VARIANT).read("blob") == b"kept"
        assert [one.name for one in client.catalogue.list()] == [PACKAGE]


def test_a_socket_that_nobody_serves_is_replaced(tmp_path: Path) -> None:
    daemon = Daemon(tmp_path)
    for name, kind in (("grpc.sock", socket.SOCK_STREAM), ("data.sock", socket.SOCK_SEQPACKET)):
        with socket.socket(socket.AF_UNIX, kind) as stale:
            stale.bind(str(daemon.socket / name))
    with daemon, daemon.connect() as client:
        assert client.state().serving


def test_sigterm_lets_a_read_finish_and_takes_no_new_one(daemon: Daemon) -> None:
    data = varied(40 << 20)
    with daemon.connect() as client:
        publish(client, {"blob": data})
    with grpc.insecure_channel(f"unix:{daemon.socket / 'grpc.sock'}") as channel:
        stub = payloads_pb2_grpc.PayloadsStub(channel)
        health = health_pb2_grpc.HealthStub(channel)
        request = payloads_pb2.ReadRequest(scope=SCOPE, name="blob")
        running = stub.Read(request, timeout=60)
        received = next(running).data
        assert daemon.process
        daemon.process.send_signal(signal.SIGTERM)
        wait_until_drains(health)
        with pytest.raises(grpc.RpcError) as refused:
            next(stub.Read(request, timeout=10))
        assert isinstance(error_of(refused.value), UnavailableError)
        assert daemon.metric("sealcar_draining") == 1
        received += b"".join(piece.data for piece in running)
    assert received == data
    assert daemon.process.wait(30) == 0


def test_what_comes_while_it_drains_has_a_line_of_its_own_and_a_second_signal_ends_it(
    tmp_path: Path,
) -> None:
    with (
        Daemon(tmp_path, settings={"daemon.drain_timeout": "10min"}) as daemon,
        RawClient(daemon) as raw,
        grpc.insecure_channel(f"unix:{daemon.socket / 'grpc.sock'}") as channel,
    ):
        with daemon.connect() as client:
            publish(client, {"blob": varied(40 << 20)})
        stalled = payloads_pb2_grpc.PayloadsStub(channel).Read(
            payloads_pb2.ReadRequest(scope=SCOPE, name="blob")
        )
        next(stalled)
        raw.send(data_socket_pb2.ClientPacket(open=payloads_pb2.OpenRequest()))
        before = raw.error().request_id
        assert daemon.process
        daemon.process.send_signal(signal.SIGTERM)
        serving = True
        while serving:
            raw.send(data_socket_pb2.ClientPacket(state=data_socket_pb2.StateRequest()))
            serving = raw.packet().state.serving
        raw.send(data_socket_pb2.ClientPacket(begin=payloads_pb2.BeginRequest()))
        refused = raw.error()
        assert daemon.stop() == 0
        stalled.cancel()
    assert refused.reason == common_pb2.ERROR_REASON_UNAVAILABLE
    lines = {line["request_id"]: line for line in daemon.log if line["event"] == "request refused"}
    assert [lines[one]["request"] for one in (before, refused.request_id)] == ["open", "begin"]


def test_a_read_that_never_ends_is_cut_when_the_drain_timeout_is_over(tmp_path: Path) -> None:
    daemon = Daemon(tmp_path, settings={"daemon.drain_timeout": "1s"})
    with daemon:
        with daemon.connect() as client:
            publish(client, {"blob": varied(40 << 20)})
        with grpc.insecure_channel(f"unix:{daemon.socket / 'grpc.sock'}") as channel:
            stub = payloads_pb2_grpc.PayloadsStub(channel)
            stalled = stub.Read(payloads_pb2.ReadRequest(scope=SCOPE, name="blob"))
            next(stalled)
            started = time.monotonic()
            assert daemon.stop() == 0
            assert 1 <= time.monotonic() - started < 15
            with pytest.raises(grpc.RpcError):
                list(stalled)


def test_a_call_that_leaves_the_daemon_waiting_is_cancelled(tmp_path: Path) -> None:
    with Daemon(tmp_path, settings={"transfer.idle_timeout": "1s"}) as daemon:
        with daemon.connect() as client:
            publish(client, {"blob": varied(40 << 20)})
        with grpc.insecure_channel(f"unix:{daemon.socket / 'grpc.sock'}") as channel:
            read = payloads_pb2_grpc.PayloadsStub(channel).Read
            export = package_store_pb2_grpc.PackageStoreStub(channel).Export
            stalled: dict[str, Iterator[object]] = {
                "Payloads.Read": read(payloads_pb2.ReadRequest(scope=SCOPE, name="blob")),
                "PackageStore.Export": export(pb.ExportRequest(package=SCOPE.package)),
            }
            deadline = time.monotonic() + 30
            for answers in stalled.values():
                next(answers)
            for method, answers in stalled.items():
                labels = {"method": method, "code": "CANCELLED"}
                while not daemon.metric("sealcar_grpc_requests_total", **labels):
                    assert time.monotonic() < deadline
                    time.sleep(0.1)
                with pytest.raises(grpc.RpcError):
                    list(answers)


def test_a_session_ends_with_its_process(daemon: Daemon) -> None:
    child = os.fork()
    if child == 0:
        connection = socket.socket(socket.AF_UNIX)
        connection.connect(str(daemon.socket / "grpc.sock"))
        # who says nothing has no session yet
        connection.send(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n")
        signal.pause()
    deadline = time.monotonic() + 30
    while daemon.metric("sealcar_sessions") != 1:
        assert time.monotonic() < deadline
        time.sleep(0.05)
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
    while daemon.metric("sealcar_sessions") != 0:
        assert time.monotonic() < deadline
        time.sleep(0.05)


def wait_until_drains(health: health_pb2_grpc.HealthStub) -> None:
    deadline = time.monotonic() + 30
    request = health_pb2.HealthCheckRequest(service="sealcar.v1.Payloads")
    while health.Check(request, timeout=10).status != health_pb2.HealthCheckResponse.NOT_SERVING:
        assert time.monotonic() < deadline
        time.sleep(0.02)
