"""What a caller can get wrong or forge: one typed error each, and the daemon is as it was.

Broken protocols are in test_hostile_clients.py, rings in test_hostile_rings.py, stores in
test_tampered_store.py and test_tampered_records.py, daemons and clients that are killed in
test_client_processes.py, full disks in test_data_socket_failures.py.
"""

from __future__ import annotations

import os
import socket
from typing import TYPE_CHECKING, Final

import grpc
import pytest
from support.daemon import Daemon
from support.grpcdoor import grpc_door, refused
from support.grpcdoor import scope as scope_message
from support.payload_packages import COMPONENT, PACKAGE, VARIANT, publish, varied
from support.raw_clients import SCOPE, RawClient, until
from support.unharmed import unharmed

from sealcar import errors
from sealcar.v1 import common_pb2, package_store_pb2, payloads_pb2
from sealcar.v1 import data_socket_pb2 as pb

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

GOOD: Final = (PACKAGE, COMPONENT, VARIANT, "big")
PLACES: Final = ("package", "component", "variant", "payload")
NAMES: Final = {
    "unknown": "none",
    "empty": "",
    "parent": "..",
    "climbing": "a/../../b",
    "absolute": "/etc/passwd",
    "NUL": "a\0b",
    "5,000 bytes": "x" * 5000,
    "not UTF-8": "\udc80",
    "of the format": "manifest.json",
    "hidden": ".hidden",
    "decomposed": "e\u0301",
}


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Daemon]:
    with Daemon(tmp_path_factory.mktemp("d")) as daemon:
        with daemon.connect() as client:
            publish(client, {"big": varied(20 << 20), "small": b"small"})
        yield daemon


@pytest.fixture
def daemon(shared: Daemon) -> Iterator[Daemon]:
    """Give a daemon that afterwards serves, holds and stores what it did before."""
    before = stored(shared)
    with unharmed(shared):
        yield shared
    until(lambda: stored(shared) == before)


def stored(daemon: Daemon) -> dict[Path, int]:
    """Return every file and directory of the store."""
    return {path: path.lstat().st_mode for path in daemon.store.rglob("*")}


@pytest.mark.parametrize("place", range(len(PLACES)), ids=PLACES)
@pytest.mark.parametrize("name", [*NAMES.values(), "case twin"], ids=[*NAMES, "case twin"])
def test_a_name_that_is_none_is_one_typed_error_and_the_next_read_is_served(
    daemon: Daemon, place: int, name: str
) -> None:
    names = list(GOOD)
    names[place] = GOOD[place].upper() if name == "case twin" else name
    package, component, variant, payload = names
    with daemon.connect() as client:
        with pytest.raises(errors.RequestError) as caught:
            client.scope(package, component, variant).read(payload)
        kinds = (errors.NotFoundError, errors.InvalidNameError, errors.InvalidRequestError)
        assert type(caught.value) in kinds
        assert caught.value.place.phase
        assert client.scope(PACKAGE, COMPONENT, VARIANT).read("small") == b"small"


@pytest.mark.parametrize("name", [*NAMES.values()], ids=[*NAMES])
def test_a_name_that_can_not_be_written_is_one_typed_error_and_the_next_is_taken(
    daemon: Daemon, name: str
) -> None:
    with daemon.connect() as client, client.begin(PACKAGE, COMPONENT, "w") as transaction:
        if name != NAMES["unknown"]:
            with pytest.raises(errors.InvalidNameError) as caught:
                transaction.write(name, b"x", "other")
            assert caught.value.place.variant == "w"
        transaction.write("good", b"x", "other")


def test_a_case_twin_of_a_written_name_is_refused(daemon: Daemon) -> None:
    with daemon.connect() as client, client.begin(PACKAGE, COMPONENT, "w") as transaction:
        transaction.write("weights.bin", b"x", "other")
        with pytest.raises(errors.RequestError) as caught:
            transaction.write("Weights.BIN", b"x", "other")
        assert caught.value.place.payload == "Weights.BIN"
        transaction.write("good", b"x", "other")


def test_a_name_that_is_not_utf8_on_the_wire_ends_the_connection(daemon: Daemon) -> None:
    request = pb.ClientPacket(read=payloads_pb2.ReadRequest(scope=SCOPE, name="small"))
    with RawClient(daemon) as client:
        client.sock.send(request.SerializeToString().replace(b"small", b"sm\xffll"))
        assert client.error().reason == common_pb2.ERROR_REASON_INVALID_REQUEST
        assert client.closed()


def test_a_grpc_message_over_the_limit_is_refused_and_the_next_one_served(daemon: Daemon) -> None:
    with grpc_door(daemon) as door:
        reference = common_pb2.PackageRef(name="x" * (5 << 20))
        with pytest.raises(grpc.RpcError) as failed:
            door.packages.Get(package_store_pb2.GetRequest(package=reference))
        assert failed.value.code() is grpc.StatusCode.RESOURCE_EXHAUSTED
        with refused(errors.NotFoundError):
            door.payloads.Open(payloads_pb2.OpenRequest(scope=scope_message("none")))


def test_a_write_that_is_left_half_way_is_as_if_it_had_never_begun(daemon: Daemon) -> None:
    with daemon.connect() as client, client.begin(PACKAGE, COMPONENT, "w") as transaction:
        writer = transaction.writer("half", "other")
        writer.write(varied(5 << 20))
        writer.close()
        with pytest.raises(errors.WrongStateError):
            writer.write(b"more")


def test_a_descriptor_sent_along_with_a_write_ends_it(daemon: Daemon) -> None:
    with RawClient(daemon) as client:
        client.start_write("x")
        packet = pb.ClientPacket(piece=pb.Piece(slot=0, size=1, last=True)).SerializeToString()
        read, write = os.pipe()
        socket.send_fds(client.sock, [packet], [write])
        os.close(write)
        assert client.error().reason == common_pb2.ERROR_REASON_DENIED
        assert client.closed()
        # nobody holds the other end any more: the daemon closed what it was sent
        assert os.read(read, 1) == b""
        os.close(read)


def test_a_record_that_was_spoiled_is_refused_at_both_doors_and_other_packages_are_served(
    tmp_path: Path,
) -> None:
    with Daemon(tmp_path) as daemon:
        with daemon.connect() as client:
            publish(client, {"big": varied(2 << 20), "small": b"small"})
            publish(client, {"big": varied(2 << 20)}, "spoiled")
        assert daemon.stop() == 0
        manifest = next((daemon.store / "spoiled").rglob("manifest.json"))
        text = manifest.read_bytes()
        # in its last payload: a byte of the package's id would make it a matter of the key
        at = text.index(b'"tag"') - 60
        manifest.write_bytes(text[:at] + (b"B" if text[at:][:1] == b"A" else b"A") + text[at + 1 :])
        daemon.start()
        with unharmed(daemon):
            with daemon.connect() as client, pytest.raises(errors.DamagedError) as caught:
                client.scope("spoiled", COMPONENT, VARIANT).read("big")
            assert caught.value.place.package == "spoiled"
            with grpc_door(daemon) as door, refused(type(caught.value)):
                door.payloads.Open(payloads_pb2.OpenRequest(scope=scope_message("spoiled")))
