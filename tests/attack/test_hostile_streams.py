"""The byte stream for clients that can't be handed memory: no weaker than the socket of packets."""

from __future__ import annotations

import os
import select
import signal
import socket
import subprocess
import sys
import tempfile
import time
from typing import TYPE_CHECKING

import pytest
from support.daemon import Daemon, answer, environment
from support.payload_packages import COMPONENT, PACKAGE, VARIANT, publish, varied
from support.raw_clients import ATTEST, SCOPE, descriptors, until
from support.raw_streams import RawStream, framed
from support.unharmed import unharmed

import sealcar
from sealcar.errors import LockedError, UnavailableError
from sealcar.transfer.descriptors import PACKET
from sealcar.v1 import common_pb2, payloads_pb2
from sealcar.v1 import data_socket_pb2 as pb
from sealcar_server.sealing.layout import FIRST_PIECE, SEGMENT

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

MIB = 1 << 20
BIG = varied(20 * MIB)
RING_FULL = varied(7 * MIB)
WRONG_STATE = common_pb2.ERROR_REASON_WRONG_STATE
INVALID = common_pb2.ERROR_REASON_INVALID_REQUEST
READ = pb.ClientPacket(read=payloads_pb2.ReadRequest(scope=SCOPE, name="small"))
STRANGER = 4302
# connects, is attested, and has a child of another uid ask in its place
PASSED = """
import os, socket, sys
path, attest, read, stranger = sys.argv[1], *map(bytes.fromhex, sys.argv[2:4]), int(sys.argv[4])
sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
sock.settimeout(20)
sock.connect(path + "/flow.sock")
sock.sendall(attest)
assert sock.recv(65536)
if not os.fork():
    os.setgroups([]); os.setresgid(*[stranger] * 3); os.setresuid(*[stranger] * 3)
    sock.sendall(read)
    said = b""
    try:
        while data := sock.recv(65536):
            said += data
    except ConnectionResetError:
        pass
    os.write(1, said)
    os._exit(0)
os.wait()
"""


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Daemon]:
    settings = {"transfer.idle_timeout": "2"}
    with Daemon(tmp_path_factory.mktemp("d"), settings=settings, reachable=True) as daemon:
        with daemon.connect() as client:
            publish(client, {"big": BIG, "small": b"small"})
        yield daemon


@pytest.fixture
def daemon(shared: Daemon) -> Iterator[Daemon]:
    # the thread that moves streams begins with the first one
    RawStream(shared).close()
    with unharmed(shared):
        yield shared


def refused(client: RawStream, reason: common_pb2.ErrorReason.ValueType) -> None:
    error = client.error()
    assert error.reason == reason, error
    assert client.closed()


NO_MESSAGES = {
    "a length of nothing": bytes(4),
    "a length over the limit": (PACKET + 1).to_bytes(4, "little"),
    "the longest length": b"\xff" * 4,
    "no protobuf": framed(b"\xff"),
    "noise": framed(os.urandom(2000)),
    "a message as data.sock has it": b"\x12" * 64,
}


@pytest.mark.parametrize("data", NO_MESSAGES.values(), ids=NO_MESSAGES)
def test_what_is_no_message_ends_the_stream(daemon: Daemon, data: bytes) -> None:
    with RawStream(daemon) as client:
        client.sock.sendall(data)
        assert client.error().reason in (INVALID, WRONG_STATE)
        assert client.closed()


@pytest.mark.parametrize("cut", [1, 3, 4, 5])
def test_half_a_message_is_none_and_costs_nothing(daemon: Daemon, cut: int) -> None:
    with RawStream(daemon) as client:
        client.sock.sendall(framed(READ.SerializeToString())[:cut])
        time.sleep(0.05)
    with RawStream(daemon) as client:
        whole = framed(READ.SerializeToString())
        for byte in whole:
            client.sock.send(bytes([byte]))
        assert client.packet().reading.data == b"small"


def test_many_messages_at_once_are_taken_one_after_the_other(daemon: Daemon) -> None:
    with RawStream(daemon) as client:
        client.send(READ)
        assert client.packet().reading.data == b"small"
        client.sock.sendall(2 * framed(pb.ClientPacket(read=READ.read).SerializeToString()))
        # the second came before the first had ended, or it was quick enough
        assert client.packet().WhichOneof("packet") in ("reading", "error")


def test_anything_before_attest_ends_the_stream(daemon: Daemon) -> None:
    with RawStream(daemon, attest=False) as client:
        client.send(READ)
        refused(client, WRONG_STATE)


def test_descriptors_on_a_stream_are_closed_and_end_it(daemon: Daemon) -> None:
    with RawStream(daemon) as client, tempfile.TemporaryFile() as file:
        before = descriptors(daemon.pid)
        socket.send_fds(client.sock, [framed(READ.SerializeToString())], [file.fileno()] * 3)
        refused(client, common_pb2.ERROR_REASON_DENIED)
        until(lambda: descriptors(daemon.pid) < before)


def test_a_piece_without_a_write_ends_the_stream(daemon: Daemon) -> None:
    with RawStream(daemon) as client:
        client.piece(0, 0, 5)
        refused(client, WRONG_STATE)


@pytest.mark.parametrize("size", [SEGMENT + 1, 2**32 - 1])
def test_a_piece_over_the_limit_ends_the_stream(daemon: Daemon, size: int) -> None:
    with RawStream(daemon) as client:
        client.start_write("x")
        client.piece(0, 0, size)
        refused(client, INVALID)


@pytest.mark.parametrize(
    ("offset", "size", "last"), [(1, FIRST_PIECE, False), (0, FIRST_PIECE - 1, False)]
)
def test_a_piece_that_can_not_be_ends_the_write_of_a_stream(
    daemon: Daemon, offset: int, size: int, *, last: bool
) -> None:
    with RawStream(daemon) as client:
        client.start_write("x")
        client.piece(3, offset, size, last=last)
        client.sock.sendall(bytes(size))
        refused(client, WRONG_STATE)


def test_a_piece_after_its_write_has_ended_ends_the_stream_before_its_bytes_come(
    daemon: Daemon,
) -> None:
    with RawStream(daemon) as client:
        client.start_write("x", 5)
        client.piece(0, 0, 5, last=True)
        client.sock.sendall(b"first")
        assert client.packet().WhichOneof("packet") == "written"
        # without a byte of it: they would come to where the write before had its memory
        client.piece(0, 0, 5, last=True)
        refused(client, WRONG_STATE)


def test_a_write_that_stops_in_mid_piece_ends_when_patience_does(daemon: Daemon) -> None:
    with RawStream(daemon) as client:
        client.start_write("x")
        client.piece(0, 0, FIRST_PIECE)
        client.sock.sendall(bytes(1000))
        assert client.error().reason == common_pb2.ERROR_REASON_TIMED_OUT
        assert client.closed()


def test_a_stream_that_is_never_read_holds_nobody_up(daemon: Daemon) -> None:
    slow = [RawStream(daemon) for _ in range(8)]
    try:
        for one in slow:
            one.start_read("big")
        with daemon.connect(delivery="stream") as other:
            assert other.scope(PACKAGE, COMPONENT, VARIANT).read("big") == BIG
        until(lambda: all(_hung_up(one.sock) for one in slow))
    finally:
        for one in slow:
            one.close()


def test_who_sends_no_more_is_gone_and_his_transfer_too(daemon: Daemon) -> None:
    with RawStream(daemon) as client:
        client.start_read("big")
        client.sock.shutdown(socket.SHUT_WR)
        with daemon.connect() as other:
            until(lambda: other.state().transfers == 0)
        assert len(client.take(len(BIG))) < len(BIG)


def _hung_up(sock: socket.socket) -> bool:
    watch = select.poll()
    watch.register(sock, select.POLLRDHUP)
    return bool(watch.poll(0))


def test_questions_without_end_that_nobody_hears_the_answers_of_end_the_stream(
    daemon: Daemon,
) -> None:
    with RawStream(daemon) as client:
        flood = framed(READ.SerializeToString()) * 500
        with pytest.raises(OSError, match=r"Broken pipe|reset"):
            client.sock.sendall(flood * 2000)


@pytest.mark.root
def test_a_stream_that_was_passed_on_gives_nothing_to_others(daemon: Daemon) -> None:
    attest, read = (framed(one.SerializeToString()).hex() for one in (ATTEST, READ))
    done = subprocess.run(
        [sys.executable, "-c", PASSED, str(daemon.socket), attest, read, str(STRANGER)],
        env=environment(),
        capture_output=True,
        timeout=30,
        check=True,
    )
    assert b"only the process that connected may send here" in done.stdout
    assert b"small" not in done.stdout


@pytest.mark.root
def test_another_uid_reads_nothing_over_a_stream_without_a_grant(daemon: Daemon) -> None:
    program = (
        # all of it: the stranger may not be able to look where it lies
        "import os, sys, sealcar, sealcar.client\n"
        "from sealcar.errors import NotFoundError\n"
        "os.setgroups([]); os.setresgid(4302, 4302, 4302); os.setresuid(4302, 4302, 4302)\n"
        "client = sealcar.connect(sys.argv[1], peer_uid=0, delivery='stream')\n"
        "try: client.scope('p', 'main', 'v').read('small')\n"
        "except NotFoundError: print('nothing is there')\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", program, str(daemon.socket)],
        env=environment(),
        capture_output=True,
        text=True,
        timeout=30,
        check=False,
    )
    assert done.stdout == "nothing is there\n", done.stderr


@pytest.mark.root
def test_nobody_else_is_believed_to_be_the_daemon_of_a_stream(tmp_path: Path) -> None:
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as squatter:
        squatter.bind(str(tmp_path / "flow.sock"))
        squatter.listen()
        with pytest.raises(UnavailableError, match="must have uid 4301"):
            sealcar.connect(tmp_path, peer_uid=4301, timeout=0.5, delivery="stream")
        with squatter.accept()[0] as accepted:
            assert accepted.recv(100) == b"", "nothing was said to it"


@pytest.mark.parametrize("data", [BIG, RING_FULL], ids=["more", "as much"])
def test_a_lock_lets_no_more_bytes_out_of_a_stream(tmp_path: Path, data: bytes) -> None:
    with Daemon(tmp_path) as daemon:
        with daemon.connect() as client:
            publish(client, {"big": data, "small": b"small"})
        with RawStream(daemon) as slow:
            slow.start_read("big")
            time.sleep(0.2)
            answer("lock", "--admin", str(daemon.admin))
            found, end = slow.pieces()
            assert end.error.reason == common_pb2.ERROR_REASON_LOCKED, end
            # what lay in the socket's buffer before, and zeros for the rest of its piece
            told = sum(len(piece.rstrip(b"\0")) for piece in found.values())
            assert told < 4 * MIB, "what was ready beyond that was never sent"
        with daemon.connect(delivery="stream") as client, pytest.raises(LockedError):
            client.scope(PACKAGE, COMPONENT, VARIANT).read("small")


def test_a_daemon_that_ends_waits_for_what_a_stream_has_not_taken_yet(tmp_path: Path) -> None:
    with Daemon(tmp_path) as daemon:
        with daemon.connect() as client:
            publish(client, {"big": RING_FULL, "small": b"small"})
        with RawStream(daemon) as slow:
            slow.start_read("big")
            time.sleep(0.2)
            os.kill(daemon.pid, signal.SIGTERM)
            time.sleep(0.5)
            found, end = slow.pieces()
            assert end.done.size == len(RING_FULL), end
            assert b"".join(found[at] for at in sorted(found)) == RING_FULL
