"""Clients that can't be handed memory: the same payloads, over a byte stream."""

from __future__ import annotations

import json
import subprocess
import sys
import threading
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from support.daemon import Daemon, answer, environment
from support.payload_packages import COMPONENT, PACKAGE, VARIANT, publish, varied
from support.raw_streams import RawStream

import sealcar
from sealcar.errors import (
    ConfigurationError,
    DamagedError,
    NotFoundError,
    UnavailableError,
)
from sealcar.v1 import data_socket_pb2 as pb

if TYPE_CHECKING:
    from collections.abc import Iterator

    from sealcar import Client

MIB = 1 << 20
PAYLOADS = {
    "big": varied(20 * MIB + 77),
    "one": varied(MIB),
    "small": b"small",
    "empty": b"",
    "spoilt": varied(12 * MIB),
}
WHERE = (PACKAGE, COMPONENT, VARIANT)
# what a process does that is kept from being handed memory
OBSTRUCTED = """
import hashlib, json, sys
sys.path.insert(0, sys.argv[1])
import sealcar
from support import obstacles
client = sealcar.connect(sys.argv[2])
if sys.argv[3] == "no_messages_with_descriptors":
    client.close()
getattr(obstacles, sys.argv[3])()
if sys.argv[3] == "no_messages_with_descriptors":
    client = sealcar.connect(sys.argv[2])
scope = client.scope(*sys.argv[4:7])
found = {name: hashlib.sha256(scope.read(name)).hexdigest() for name in ("big", "small", "one")}
with scope.map("big", shared=True) as mapped:
    found["mapped"] = hashlib.sha256(mapped.view).hexdigest()
if sys.argv[3] == "no_descriptors_left":  # a transaction has a connection of its own
    print(json.dumps([found, client.delivery, client.delivery_reason]))
    sys.exit()
with client.begin(*sys.argv[4:6], sys.argv[3]) as transaction:
    transaction.write("model.onnx", b"", "model")
    with transaction.writer("big", "other") as writer:
        writer.write(scope.read("big"))
        writer.finish()
    found["written"] = hashlib.sha256(scope.read("big")).hexdigest()
print(json.dumps([found, client.delivery, client.delivery_reason]))
"""


@pytest.fixture(scope="module")
def daemon(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Daemon]:
    with Daemon(tmp_path_factory.mktemp("d")) as made:
        with made.connect() as client:
            publish(client, PAYLOADS)
        yield made


@pytest.fixture(scope="module")
def client(daemon: Daemon) -> Iterator[Client]:
    with daemon.connect(delivery="stream") as made:
        yield made


def obstructed(folder: Path, obstacle: str, **extra: str) -> subprocess.CompletedProcess[str]:
    """Run a process that reads and writes in spite of an obstacle."""
    tests = str(Path(__file__).parent.parent)
    return subprocess.run(
        [sys.executable, "-c", OBSTRUCTED, tests, str(folder), obstacle, *WHERE],
        env=environment(extra),
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


@pytest.mark.parametrize("name", ["big", "one", "small", "empty"])
def test_every_form_of_a_payload_holds_the_very_bytes(client: Client, name: str) -> None:
    scope = client.scope(PACKAGE, COMPONENT, VARIANT)
    assert scope.read(name) == PAYLOADS[name]
    target = bytearray(len(PAYLOADS[name]))
    with scope.reader(name) as reader:
        reader.read_into(target)
    assert target == PAYLOADS[name]
    with scope.map(name, shared=True) as mapped:
        assert bytes(mapped.view) == PAYLOADS[name]
    if PAYLOADS[name]:
        named = scope.named(name, shared=True)
        assert named
        with named:
            assert named.read() == PAYLOADS[name]
    assert client.delivery == "stream"
    assert not client.delivery_reason


def test_what_is_written_in_pieces_of_any_size_is_what_is_read(
    client: Client, daemon: Daemon
) -> None:
    data = PAYLOADS["big"]
    with client.begin(PACKAGE, COMPONENT, "written") as transaction:
        with transaction.writer("unsized", "other") as writer:
            for at, size in ((0, 3), (3, 5 * MIB), (3 + 5 * MIB, len(data))):
                writer.write(data[at : at + size])
            assert writer.finish().size == len(data)
        transaction.write("sized", data, "other")
        transaction.write("nothing", b"", "other")
        transaction.write("broken off", b"x", "other")
        with transaction.writer("given up", "other") as left:
            left.write(data)
        assert "given up" not in transaction.names
        transaction.write("given up", b"now", "other")
    with daemon.connect() as other, pytest.raises(NotFoundError):
        other.scope(PACKAGE, COMPONENT, "written").read("sized")


def test_bytes_count_as_delivered_by_stream(client: Client, daemon: Daemon) -> None:
    def counted() -> float:
        return daemon.metric("sealcar_payload_bytes_total", direction="read", delivery="stream")

    before = counted()
    client.scope(PACKAGE, COMPONENT, VARIANT).read("big")
    assert counted() - before == len(PAYLOADS["big"])


@pytest.mark.parametrize(
    ("obstacle", "reason"),
    [
        ("no_messages_with_descriptors", "descriptors can't be received"),
        ("no_shared_maps", "can't be mapped"),
        ("no_descriptors_left", "no descriptor came"),
    ],
)
def test_who_can_not_be_handed_memory_reads_and_writes_over_a_stream_unasked(
    daemon: Daemon, obstacle: str, reason: str
) -> None:
    done = obstructed(daemon.socket, obstacle)
    assert done.returncode == 0, done.stderr
    found, delivery, said = json.loads(done.stdout)
    assert delivery == "stream"
    assert reason in said
    assert len({found.pop("one"), found.pop("small"), *found.values()}) == 3


def test_who_insists_on_a_ring_is_told_that_there_is_none(daemon: Daemon) -> None:
    tests = str(Path(__file__).parent.parent)
    program = [
        sys.executable,
        "-c",
        OBSTRUCTED,
        tests,
        str(daemon.socket),
        "no_shared_maps",
        *WHERE,
    ]
    done = subprocess.run(
        program,
        env=environment({"SEALCAR_DELIVERY": "ring"}),
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert "the daemon's ring can't be mapped" in done.stderr
    assert done.returncode == 1


def test_a_way_that_does_not_exist_is_refused(daemon: Daemon) -> None:
    with pytest.raises(ConfigurationError, match="auto, ring or stream"):
        daemon.connect(delivery="pigeon")


def test_a_daemon_without_the_socket_is_named_after_what_a_ring_met(
    daemon: Daemon, tmp_path: Path
) -> None:
    (tmp_path / "data.sock").symlink_to(daemon.socket / "data.sock")
    done = obstructed(tmp_path, "no_shared_maps")
    assert "the daemon's ring can't be mapped" in done.stderr


def test_status_and_doctor_say_which_way_is_used(
    daemon: Daemon, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert answer("status", "--socket", str(daemon.socket))["delivery"] == "ring"
    monkeypatch.setenv("SEALCAR_DELIVERY", "stream")
    assert answer("status", "--socket", str(daemon.socket))["delivery"] == "stream"
    said = answer("doctor", "--socket", str(daemon.socket))["findings"]
    (found,) = [one for one in said if one["check"] == "delivery"]
    assert found["state"] == "weaker"
    assert "SEALCAR_DELIVERY" in found["remedy"]


def test_damage_in_mid_stream_is_an_error_and_no_byte_stays(daemon: Daemon, client: Client) -> None:
    (path,) = daemon.store.rglob("spoilt")
    raw = path.read_bytes()
    target = bytearray(len(PAYLOADS["spoilt"]))
    try:
        path.write_bytes(raw[: 5 * MIB] + bytes([raw[5 * MIB] ^ 1]) + raw[5 * MIB + 1 :])
        with (
            client.scope(PACKAGE, COMPONENT, VARIANT).reader("spoilt") as reader,
            pytest.raises(DamagedError),
        ):
            reader.read_into(target)
    finally:
        path.write_bytes(raw)
    assert not any(target)
    assert client.scope(PACKAGE, COMPONENT, VARIANT).read("small") == b"small"


def test_many_at_once_over_both_ways_all_come_to_their_end(daemon: Daemon) -> None:
    wrong: list[str] = []

    def read(delivery: str) -> None:
        with daemon.connect(delivery=delivery) as one:
            scope = one.scope(PACKAGE, COMPONENT, VARIANT)
            wrong.extend(name for name in PAYLOADS if scope.read(name) != PAYLOADS[name])

    threads = [
        threading.Thread(target=read, args=(way,)) for way in ("stream", "ring", "stream", "stream")
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


def test_a_killed_daemon_ends_a_stream_in_mid_read_and_the_target_is_wiped(tmp_path: Path) -> None:
    with Daemon(tmp_path) as own:
        with own.connect() as other:
            publish(other, PAYLOADS)
        with own.connect(delivery="stream") as one:
            scope = one.scope(PACKAGE, COMPONENT, VARIANT)
            target = bytearray(b"x" * len(PAYLOADS["big"]))
            with scope.reader("big") as reader:
                own.kill()
                with pytest.raises(UnavailableError):
                    reader.read_into(target)
            assert not any(target)


def test_a_stream_can_be_named_by_the_environment(
    daemon: Daemon, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SEALCAR_DELIVERY", "stream")
    with sealcar.connect(daemon.socket) as one:
        assert one.delivery == "stream"


def test_a_segment_is_not_to_be_had_over_a_stream(daemon: Daemon) -> None:
    with RawStream(daemon, attest=False) as raw:
        raw.send(pb.ClientPacket(attest=pb.Attest(protocol=1)))
        assert not raw.packet().attested.segments
        raw.send(pb.ClientPacket(segment=pb.SegmentRequest(name="big")))
        assert "no memory" in raw.error().message
