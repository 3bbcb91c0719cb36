"""A name that breaks a rule is one typed error at both doors, however long it is."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pytest
from support.daemon import Daemon
from support.grpcdoor import grpc_door, refused
from support.payload_packages import COMPONENT, PACKAGE, VARIANT, publish
from support.raw_clients import RawClient

from sealcar.errors import InvalidNameError, NotFoundError, SealcarError
from sealcar.v1 import common_pb2, payloads_pb2
from sealcar.v1 import data_socket_pb2 as pb

if TYPE_CHECKING:
    from collections.abc import Iterator

GOOD = (PACKAGE, "", COMPONENT, VARIANT, "small")
LONG = 60_000  # what still fits into a packet of the data socket
NAMES = ["..", "a\0b", "/etc/passwd", "x" * 5000, "x" * LONG, "\U0001f512" * (LONG // 4)]
PLACES = ("package", "version", "component", "variant", "payload")


@pytest.fixture(scope="module")
def daemon(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Daemon]:
    with Daemon(tmp_path_factory.mktemp("d")) as daemon:
        with daemon.connect(peer_uid=os.geteuid()) as client:
            publish(client, {"small": b"small"})
        yield daemon


def request(place: int, name: str) -> payloads_pb2.ReadRequest:
    names = list(GOOD)
    names[place] = name
    package, version, component, variant, payload = names
    scope = common_pb2.Scope(
        package=common_pb2.PackageRef(name=package, version=version),
        component=component,
        variant=variant,
    )
    return payloads_pb2.ReadRequest(scope=scope, name=payload)


def expected(place: int) -> type[SealcarError]:
    # what may stand in a manifest is looked for there
    return NotFoundError if PLACES[place] in ("component", "variant") else InvalidNameError


@pytest.mark.parametrize("place", range(len(PLACES)), ids=PLACES)
@pytest.mark.parametrize("name", NAMES, ids=lambda name: ascii(name)[:12] + str(len(name)))
def test_a_hostile_name_is_one_typed_error_at_both_doors(
    daemon: Daemon, place: int, name: str
) -> None:
    asked = request(place, name)
    with grpc_door(daemon) as door, refused(expected(place)):
        list(door.payloads.Read(asked))
    client = RawClient(daemon)
    try:
        client.send(pb.ClientPacket(read=asked))
        reason = client.error().reason
        client.read("small")
        assert client.packet().reading.data == b"small"
    finally:
        client.close()
    assert reason in (common_pb2.ERROR_REASON_INVALID_NAME, common_pb2.ERROR_REASON_NOT_FOUND)


def test_a_hostile_name_does_not_fill_the_log(daemon: Daemon) -> None:
    with grpc_door(daemon) as door, refused(InvalidNameError):
        list(door.payloads.Read(request(4, "x" * (1 << 20))))
    assert max(len(str(line)) for line in daemon.log) < 10_000
