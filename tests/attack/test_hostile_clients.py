"""Clients that break the protocol: one typed error each, nothing leaked, the next one served."""

from __future__ import annotations

import contextlib
import ctypes
import os
import signal
import socket
import subprocess
import sys
import tempfile
import time
from typing import TYPE_CHECKING

import pytest
from support.daemon import Daemon, environment
from support.payload_packages import COMPONENT, PACKAGE, VARIANT, publish, varied
from support.raw_clients import ATTEST, SCOPE, RawClient, descriptors, memfds, until
from support.unharmed import unharmed

from sealcar.transfer.descriptors import PACKET
from sealcar.v1 import common_pb2, payloads_pb2
from sealcar.v1 import data_socket_pb2 as pb
from sealcar_server.sealing.layout import FIRST_PIECE, PIECE

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

BIG = varied(20 << 20)
WRONG_STATE = common_pb2.ERROR_REASON_WRONG_STATE


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Daemon]:
    with Daemon(tmp_path_factory.mktemp("d")) as daemon:
        with daemon.connect() as client:
            publish(client, {"big": BIG, "small": b"small"})
        yield daemon


@pytest.fixture
def daemon(shared: Daemon) -> Iterator[Daemon]:
    with unharmed(shared):
        yield shared


def refused(client: RawClient, reason: common_pb2.ErrorReason.ValueType) -> str:
    """Expect one error, then the end."""
    error = client.error()
    assert error.reason == reason, error
    assert client.closed()
    return error.message


OUT_OF_TURN: dict[str, Callable[[RawClient], None]] = {
    "a ring that was not announced": lambda client: client.mapped(),
    "a slot without a read": lambda client: client.free(0),
    "a piece without a write": lambda client: client.piece(0, 0, 5),
    "a second attest": lambda client: client.send(ATTEST),
    "a packet that says nothing": lambda client: client.send(
        pb.ClientPacket(attest=pb.Attest(), ring_mapped=pb.RingMapped())
    ),
}


@pytest.mark.parametrize("act", OUT_OF_TURN.values(), ids=OUT_OF_TURN)
def test_a_packet_out_of_turn_ends_the_connection(
    daemon: Daemon, act: Callable[[RawClient], None]
) -> None:
    with RawClient(daemon) as client:
        act(client)
        refused(client, WRONG_STATE)


def test_anything_before_attest_ends_the_connection(daemon: Daemon) -> None:
    with RawClient(daemon, attest=False) as client:
        client.read("small")
        assert "attest" in refused(client, WRONG_STATE)


def test_a_second_request_before_the_first_has_ended_ends_the_connection(daemon: Daemon) -> None:
    with RawClient(daemon) as client:
        client.start_read("big")
        client.read("small")
        refused(client, WRONG_STATE)


@pytest.mark.parametrize("slot", [8, 255, 2**32 - 1])
def test_a_slot_that_was_not_lent_ends_the_read(daemon: Daemon, slot: int) -> None:
    with RawClient(daemon) as client:
        client.start_read("big")
        client.free(slot)
        refused(client, WRONG_STATE)


def test_a_slot_that_was_given_back_twice_ends_the_read(daemon: Daemon) -> None:
    with RawClient(daemon) as client:
        client.start_read("big")
        piece = client.packet().piece
        client.free(piece.slot, piece.slot)
        refused(client, WRONG_STATE)


PIECES: dict[str, tuple[int, int, int, bool]] = {
    "slot outside": (8, 0, FIRST_PIECE, False),
    "offset ahead": (0, PIECE, FIRST_PIECE, False),
    "longer than a piece": (0, 0, FIRST_PIECE + 1, True),
    "longer than a slot": (0, 0, 2**32 - 1, True),
    "shorter, but not the last": (0, 0, 100, False),
}


@pytest.mark.parametrize("piece", PIECES.values(), ids=PIECES)
def test_a_piece_that_can_not_be_ends_the_write(
    daemon: Daemon, piece: tuple[int, int, int, bool]
) -> None:
    with RawClient(daemon) as client:
        client.start_write("x")
        slot, offset, size, last = piece
        client.piece(slot, offset, size, last=last)
        refused(client, WRONG_STATE)


def test_more_than_was_declared_is_not_taken(daemon: Daemon) -> None:
    with RawClient(daemon) as client:
        client.start_write("x", size=10)
        client.piece(0, 0, 11, last=True)
        refused(client, WRONG_STATE)


def test_a_packet_over_the_limit_ends_the_connection(daemon: Daemon) -> None:
    with RawClient(daemon) as client:
        client.sock.send(b"\x0a" * (PACKET + 1))
        assert str(PACKET) in refused(client, common_pb2.ERROR_REASON_INVALID_REQUEST)


@pytest.mark.parametrize("data", [b"\xff", b"\x0a\x05ab", os.urandom(2000), b"\x00" * PACKET])
def test_what_is_no_message_ends_the_connection(daemon: Daemon, data: bytes) -> None:
    with RawClient(daemon) as client:
        client.sock.send(data)
        assert client.kind() == "error"
        assert client.closed()


@pytest.mark.parametrize("count", [1, 2, 8, 253])
def test_descriptors_from_a_client_are_closed_and_end_the_session(
    daemon: Daemon, count: int
) -> None:
    with RawClient(daemon) as client, tempfile.TemporaryFile() as file:
        until(lambda: memfds(daemon.pid) == 0)
        before = descriptors(daemon.pid)
        state = pb.ClientPacket(state=pb.StateRequest()).SerializeToString()
        socket.send_fds(client.sock, [state], [file.fileno()] * count)
        refused(client, common_pb2.ERROR_REASON_DENIED)
        until(lambda: descriptors(daemon.pid) <= before)


CHILD = """
import socket, sys
sock = socket.socket(fileno=int(sys.argv[1]))
sock.send(bytes.fromhex(sys.argv[2]))
"""


def read_to_its_end(client: RawClient) -> None:
    client.start_read("big")
    while (packet := client.packet()).WhichOneof("packet") == "piece":
        client.free(packet.piece.slot)
    assert packet.done.size == len(BIG)


READ = pb.ClientPacket(read=payloads_pb2.ReadRequest(scope=SCOPE, name="small"))
FREE = pb.ClientPacket(free=pb.Free(slots=[0]))
PASSED: dict[str, tuple[Callable[[RawClient], object], pb.ClientPacket]] = {
    "before its first request": (lambda client: client, READ),
    "while pieces come": (lambda client: client.start_read("big"), FREE),
    "when all have come": (read_to_its_end, READ),
}


@pytest.mark.parametrize(("before", "packet"), PASSED.values(), ids=PASSED)
def test_another_process_on_a_passed_socket_is_not_heard(
    daemon: Daemon, before: Callable[[RawClient], object], packet: pb.ClientPacket
) -> None:
    with RawClient(daemon) as client:
        before(client)
        number = client.sock.fileno()
        arguments = [sys.executable, "-c", CHILD, str(number), packet.SerializeToString().hex()]
        subprocess.run(arguments, pass_fds=[number], check=True, env=environment())
        refused(client, common_pb2.ERROR_REASON_DENIED)
    assert daemon.metric("sealcar_denials_total", rule="peer") > 0


def test_a_connection_made_by_one_process_can_not_be_attested_by_another(daemon: Daemon) -> None:
    with RawClient(daemon, attest=False) as client:
        number = client.sock.fileno()
        arguments = [sys.executable, "-c", CHILD, str(number), ATTEST.SerializeToString().hex()]
        subprocess.run(arguments, pass_fds=[number], check=True, env=environment())
        refused(client, common_pb2.ERROR_REASON_DENIED)


SUCCEEDED = """
import os, socket, sys
from sealcar.v1 import data_socket_pb2 as pb
sock = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
sock.connect(sys.argv[1])
sock.send(bytes.fromhex(sys.argv[2]))
assert pb.DaemonPacket.FromString(sock.recv(65536)).HasField("attested")
number = os.getpid()
print("attested", flush=True)
sys.stdin.readline()
if os.fork():
    os._exit(0)
sys.stdin.readline()
for _ in range(1000):
    open("/proc/sys/kernel/ns_last_pid", "w").write(str(number - 1))
    if not (child := os.fork()):
        if os.getpid() == number:
            sock.send(bytes.fromhex(sys.argv[3]))
        os._exit(0)
    os.waitpid(child, 0)
    if child == number:
        break
print("sent" if child == number else "no such number", flush=True)
try:
    print(sock.recv(65536).hex(), flush=True)
except ConnectionResetError:
    print(flush=True)
"""


@pytest.mark.root
@pytest.mark.skipif(
    not os.access("/proc/sys/kernel/ns_last_pid", os.W_OK), reason="numbers can't be chosen here"
)
def test_whoever_gets_the_number_of_the_process_that_connected_is_not_heard(
    daemon: Daemon,
) -> None:
    packets = [packet.SerializeToString().hex() for packet in (ATTEST, READ)]
    arguments = [sys.executable, "-c", SUCCEEDED, str(daemon.socket / "data.sock"), *packets]
    with subprocess.Popen(
        arguments,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        env=environment(),
    ) as process:
        assert process.stdin
        assert process.stdout
        assert process.stdout.readline() == "attested\n"
        # it finds the one's end and the other's packet at the same time
        os.kill(daemon.pid, signal.SIGSTOP)
        try:
            process.stdin.write("end\n")
            process.stdin.flush()
            process.wait(20)
            process.stdin.write("succeed\n")
            process.stdin.flush()
            assert process.stdout.readline() == "sent\n"
        finally:
            os.kill(daemon.pid, signal.SIGCONT)
        answer = pb.DaemonPacket.FromString(bytes.fromhex(process.stdout.readline()))
    assert not answer.HasField("reading")
    assert answer.WhichOneof("packet") in (None, "error")


@pytest.mark.root
def test_no_client_can_claim_to_be_another_process(daemon: Daemon) -> None:
    forged = ctypes.c_int * 3
    credentials = bytes(forged(daemon.pid, os.getuid(), os.getgid()))
    with RawClient(daemon) as client:
        state = pb.ClientPacket(state=pb.StateRequest()).SerializeToString()
        ancillary = [(socket.SOL_SOCKET, socket.SCM_CREDENTIALS, credentials)]
        # only root may send what isn't true; even then it isn't the process that attested
        client.sock.sendmsg([state], ancillary)
        refused(client, common_pb2.ERROR_REASON_DENIED)


def test_a_client_that_never_receives_holds_nobody_up(daemon: Daemon) -> None:
    with RawClient(daemon) as deaf, daemon.connect() as other:
        deaf.start_read("big")
        scope = other.scope(PACKAGE, COMPONENT, VARIANT)
        for _ in range(5):
            assert scope.read("big") == BIG


def test_a_client_that_asks_without_ever_receiving_is_let_go(daemon: Daemon) -> None:
    with RawClient(daemon) as deaf:
        deaf.sock.settimeout(10)
        with contextlib.suppress(BrokenPipeError, ConnectionResetError):
            for _ in range(100_000):
                deaf.send(pb.ClientPacket(state=pb.StateRequest()))
            pytest.fail("the daemon goes on answering into the void")


def test_a_transaction_of_another_process_can_not_be_used(daemon: Daemon) -> None:
    """The same uid in another process knows it only if it was told: it is unguessable."""
    with RawClient(daemon) as client:
        for transaction in (b"", b"\0" * 16, os.urandom(16), b"x" * 60_000):
            commit = payloads_pb2.CommitRequest(transaction=transaction, payloads=1)
            client.send(pb.ClientPacket(commit=commit))
            assert client.error().reason == common_pb2.ERROR_REASON_NOT_FOUND


def test_a_storm_of_connections_that_say_nothing_leaves_room_for_others(daemon: Daemon) -> None:
    crowd = [RawClient(daemon, attest=False) for _ in range(200)]
    with daemon.connect() as client:
        assert client.scope(PACKAGE, COMPONENT, VARIANT).read("small") == b"small"
    for each in crowd:
        each.close()


def test_too_many_connections_of_one_user_are_refused_with_a_reason(daemon: Daemon) -> None:
    crowd = [RawClient(daemon) for _ in range(256)]
    with RawClient(daemon, attest=False) as one_more:
        refused(one_more, common_pb2.ERROR_REASON_EXHAUSTED)
    for each in crowd:
        each.close()


def test_random_packets_never_get_through_and_never_stop_the_daemon(daemon: Daemon) -> None:
    """Any mixture of well-formed packets in any order."""
    deadline = time.monotonic() + 5
    pieces: list[pb.ClientPacket] = [
        ATTEST,
        pb.ClientPacket(read=payloads_pb2.ReadRequest(scope=SCOPE, name="big")),
        pb.ClientPacket(read=payloads_pb2.ReadRequest(scope=SCOPE, name="small")),
        pb.ClientPacket(ring_mapped=pb.RingMapped()),
        pb.ClientPacket(free=pb.Free(slots=[0])),
        pb.ClientPacket(cancel=pb.Cancel()),
        pb.ClientPacket(piece=pb.Piece(slot=0, size=5, last=True)),
        pb.ClientPacket(state=pb.StateRequest()),
        pb.ClientPacket(begin=payloads_pb2.BeginRequest(scope=SCOPE)),
        pb.ClientPacket(abort=payloads_pb2.AbortRequest(transaction=b"x")),
        pb.ClientPacket(),
    ]
    while time.monotonic() < deadline:
        order = os.urandom(12)
        with RawClient(daemon, attest=False) as client, contextlib.suppress(OSError):
            client.send(ATTEST)
            for choice in order:
                client.send(pieces[choice % len(pieces)])
