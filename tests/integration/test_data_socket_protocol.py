"""The data socket as data_socket.proto describes it, packet by packet."""

from __future__ import annotations

import ctypes
import os
from typing import TYPE_CHECKING

import grpc
import pytest
from support.caller import error_of
from support.daemon import Daemon
from support.payload_packages import publish, varied
from support.raw_clients import SCOPE, RawClient, made_ahead, memfds, until

from sealcar import protocol
from sealcar.errors import IncompatibleError, InvalidRequestError
from sealcar.v1 import common_pb2, package_store_pb2, package_store_pb2_grpc, payloads_pb2
from sealcar.v1 import data_socket_pb2 as pb

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

BIG = varied(12 << 20)
SMALL = varied(64_000)


@pytest.fixture(scope="module")
def daemon(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Daemon]:
    with Daemon(tmp_path_factory.mktemp("d")) as daemon:
        with daemon.connect() as client:
            publish(client, {"big": BIG, "small": SMALL, "empty": b"", "over": varied(64_001)})
        yield daemon


def test_both_sides_say_what_they_are(daemon: Daemon) -> None:
    with RawClient(daemon, attest=False) as client:
        client.send(pb.ClientPacket(attest=pb.Attest(protocol=9, release="newer")))
        attested = client.packet().attested
    assert attested.protocol == 1
    assert attested.isolation == "none"
    assert attested.session == "pidfd"


def test_a_client_that_is_too_old_is_told_so(daemon: Daemon) -> None:
    with RawClient(daemon, attest=False) as client:
        client.send(pb.ClientPacket(attest=pb.Attest(protocol=0)))
        assert client.error().reason == common_pb2.ERROR_REASON_INCOMPATIBLE
        assert client.closed()


@pytest.mark.parametrize(("version", "behind"), [(0, "client"), (2, "daemon")])
def test_two_sides_without_a_common_version_say_which_one_to_update(
    daemon: Daemon, monkeypatch: pytest.MonkeyPatch, version: int, behind: str
) -> None:
    with daemon.connect() as client:
        assert next(client.catalogue.list()).name == SCOPE.package.name
        monkeypatch.setattr(protocol, "PROTOCOL", version)
        monkeypatch.setattr(protocol, "OLDEST", version)
        with pytest.raises(IncompatibleError, match=f"update the {behind}"):
            client.catalogue.get(SCOPE.package.name)
        with pytest.raises(IncompatibleError, match=f"update the {behind}"):
            next(client.catalogue.list())
        with pytest.raises(IncompatibleError, match=f"update the {behind}"):
            daemon.connect(timeout=20)


def test_a_client_that_is_newer_is_spoken_to_in_the_older_version(
    daemon: Daemon, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(protocol, "PROTOCOL", 9)
    with daemon.connect() as client:
        assert client.scope("m", "c", "v").read("small") == SMALL
        assert client.catalogue.get(SCOPE.package.name).generations == (1,)


def test_a_range_of_versions_that_is_none_is_refused(daemon: Daemon) -> None:
    with grpc.insecure_channel(f"unix:{daemon.socket / 'grpc.sock'}") as channel:
        packages = package_store_pb2_grpc.PackageStoreStub(channel)
        for said in ("1", "a-b", "1-1-1", "-", "9" * 5000 + "-1"):
            with pytest.raises(grpc.RpcError) as caught:
                packages.List(
                    package_store_pb2.ListRequest(), metadata=(("x-sealcar-protocol", said),)
                )
            assert isinstance(error_of(caught.value), InvalidRequestError)


@pytest.mark.parametrize(("name", "data"), [("small", SMALL), ("empty", b"")])
def test_a_small_payload_comes_in_the_answer(daemon: Daemon, name: str, data: bytes) -> None:
    with RawClient(daemon) as client:
        for _ in range(3):
            client.read(name)
            reading = client.packet().reading
            assert reading.HasField("data")
            assert reading.data == data
            assert reading.size == len(data)


def test_a_large_payload_comes_through_a_ring_that_is_kept(daemon: Daemon) -> None:
    with RawClient(daemon) as client:
        client.start_read("big")
        _copy_out(client, BIG)
        client.read("big")
        assert client.packet().reading.size == len(BIG), "no second ring"
        _copy_out(client, BIG)


def test_no_byte_over_the_limit_comes_in_a_packet(daemon: Daemon) -> None:
    with RawClient(daemon) as client:
        client.read("over")
        assert client.packet().WhichOneof("packet") == "ring"


def _copy_out(client: RawClient, expected: bytes) -> None:
    data = bytearray(len(expected))
    while (packet := client.packet()).WhichOneof("packet") == "piece":
        piece = packet.piece
        source = client.rings[0].address(piece.slot, piece.size)
        data[piece.offset : piece.offset + piece.size] = ctypes.string_at(source, piece.size)
        client.free(piece.slot)
    assert packet.done.size == len(expected)
    assert data == expected


def test_only_whole_payloads_are_read_here(daemon: Daemon) -> None:
    with RawClient(daemon) as client:
        for part in ({"offset": 1}, {"length": 5}):
            request = payloads_pb2.ReadRequest(scope=SCOPE, name="small", **part)
            client.send(pb.ClientPacket(read=request))
            assert client.error().reason == common_pb2.ERROR_REASON_INVALID_REQUEST
        client.read("small")
        assert client.packet().reading.size == len(SMALL), "the connection is as good as new"


def test_an_error_names_phase_scope_and_payload(daemon: Daemon) -> None:
    with RawClient(daemon) as client:
        client.read("none")
        error = client.error()
    assert error.reason == common_pb2.ERROR_REASON_NOT_FOUND
    assert error.phase == "open"
    assert error.payload == "none"
    assert error.scope.package.name == SCOPE.package.name
    assert error.scope.generation == 1


def test_a_cancelled_read_ends_in_an_error_and_gives_every_slot_back(daemon: Daemon) -> None:
    with RawClient(daemon) as client:
        client.start_read("big")
        first = client.packet().piece
        client.send(pb.ClientPacket(cancel=pb.Cancel()))
        error = client.error()
        assert error.reason == common_pb2.ERROR_REASON_WRONG_STATE
        assert error.payload == "big"
        # whoever hasn't seen the error yet may still give back what it has copied
        client.free(first.slot)
        client.read("big")
        assert client.packet().WhichOneof("packet") == "reading"
        _copy_out(client, BIG)
        client.send(pb.ClientPacket(cancel=pb.Cancel()))
        client.read("small")
        assert client.packet().reading.size == len(SMALL), "it was over already"


def test_a_cancelled_read_that_waits_for_the_ring_ends_too(daemon: Daemon) -> None:
    with RawClient(daemon) as client:
        client.read("big")
        assert client.packet().WhichOneof("packet") == "ring"
        client.send(pb.ClientPacket(cancel=pb.Cancel()))
        assert client.error().reason == common_pb2.ERROR_REASON_WRONG_STATE
        client.mapped()
        client.read("small")
        assert client.packet().reading.size == len(SMALL)


def test_a_cancelled_write_leaves_nothing(daemon: Daemon) -> None:
    with RawClient(daemon) as client:
        client.start_write("x")
        client.send(pb.ClientPacket(cancel=pb.Cancel()))
        error = client.error()
        assert error.reason == common_pb2.ERROR_REASON_WRONG_STATE
        assert (error.payload, error.scope.variant) == ("x", "written")
        assert not list(daemon.store.rglob("x"))


def test_the_state_tells_of_transfers_and_memory(daemon: Daemon) -> None:
    with RawClient(daemon) as client, RawClient(daemon) as other:
        client.start_read("big")
        other.send(pb.ClientPacket(state=pb.StateRequest()))
        state = other.packet().state
        assert state.serving
        assert state.transfers == 1
        assert state.sessions == 1
        assert 0 < state.memory <= state.memory_limit


def test_whoever_reads_first_finds_a_ring_made_with_all_of_its_pages(daemon: Daemon) -> None:
    until(lambda: made_ahead(daemon.pid) == 1)
    with RawClient(daemon) as client:
        client.read("over")
        packet, descriptor = client.receive()
        assert packet is not None
        assert descriptor is not None
        size = packet.ring.slots * packet.ring.slot_size
        assert os.fstat(descriptor).st_blocks * 512 == size, "no byte of it has moved yet"
        os.close(descriptor)
        assert (memfds(daemon.pid), made_ahead(daemon.pid)) == (1, 0)
        with daemon.connect() as another:
            assert another.scope("m", "c", "v").read("big") == BIG
        assert made_ahead(daemon.pid) == 0, "none is made while somebody has one"
    until(lambda: made_ahead(daemon.pid) == 1)


def test_a_closed_connection_gives_its_ring_back(daemon: Daemon) -> None:
    until(lambda: memfds(daemon.pid) == 0)
    with RawClient(daemon) as client:
        client.start_read("big")
        assert memfds(daemon.pid) == 1
    until(lambda: memfds(daemon.pid) == 0)


def test_moved_bytes_are_counted(daemon: Daemon) -> None:
    def counted(delivery: str) -> float:
        return daemon.metric("sealcar_payload_bytes_total", direction="read", delivery=delivery)

    ring, packet = counted("ring"), counted("packet")
    with RawClient(daemon) as client:
        client.start_read("big")
        _copy_out(client, BIG)
        client.read("small")
        client.packet()
    assert counted("ring") - ring == len(BIG)
    assert counted("packet") - packet == len(SMALL)


def test_a_transfer_that_the_client_leaves_waiting_is_ended(tmp_path: Path) -> None:
    with Daemon(tmp_path, settings={"transfer.idle_timeout": "1"}) as daemon:
        with daemon.connect() as client:
            publish(client, {"big": BIG})
        with RawClient(daemon) as reader, RawClient(daemon) as mapper, RawClient(daemon) as writer:
            reader.start_read("big")
            mapper.read("big")
            writer.start_write("x")
            for client_ in (reader, mapper, writer):
                assert client_.error().reason == common_pb2.ERROR_REASON_TIMED_OUT
                assert client_.closed()


def test_who_gets_no_memory_waits_and_is_then_refused(tmp_path: Path) -> None:
    settings = {"transfer.memory_limit": str(16 << 20), "transfer.wait": "1"}
    with Daemon(tmp_path, settings=settings) as daemon:
        with daemon.connect() as client:
            publish(client, {"big": BIG})
        with RawClient(daemon) as holder, RawClient(daemon) as waiting:
            holder.start_read("big")
            waiting.read("big")
            error = waiting.error()
            assert error.reason == common_pb2.ERROR_REASON_EXHAUSTED
            assert error.retry_after_ms
            assert "memory_limit" in error.message
            waiting.read("big")
            holder.close()
            assert waiting.packet().WhichOneof("packet") == "ring", "its turn has come"


def test_an_idle_connections_ring_goes_to_who_waits_for_one(tmp_path: Path) -> None:
    with Daemon(tmp_path, settings={"transfer.memory_limit": str(16 << 20)}) as daemon:
        with daemon.connect() as client:
            publish(client, {"big": BIG})
        with RawClient(daemon) as idle, RawClient(daemon) as waiting:
            idle.start_read("big")
            _copy_out(idle, BIG)
            waiting.start_read("big")
            _copy_out(waiting, BIG)
            assert idle.closed()
