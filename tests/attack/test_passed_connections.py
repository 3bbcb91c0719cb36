"""A connection is its process's: passed on, inherited or outlived, it gives nothing to others."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from support.daemon import Daemon, environment
from support.payload_packages import PACKAGE, publish, varied
from support.raw_clients import ATTEST, SCOPE, until
from support.unharmed import unharmed

from sealcar.v1 import common_pb2, payloads_pb2
from sealcar.v1 import data_socket_pb2 as pb

if TYPE_CHECKING:
    from collections.abc import Iterator

pytestmark = pytest.mark.root
READER, STRANGER = 4301, 4302
READ = pb.ClientPacket(read=payloads_pb2.ReadRequest(scope=SCOPE, name="small"))
# what all programs below begin with; the socket is made first and connected by whoever it's about
BEGIN = """
import os, select, signal, socket, sys, time
path, attest, read = sys.argv[1], bytes.fromhex(sys.argv[2]), bytes.fromhex(sys.argv[3])
reader, stranger = int(sys.argv[4]), int(sys.argv[5])
sock = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
sock.settimeout(20)
ready, made = os.pipe()
def become(uid):
    os.setgroups([]); os.setresgid(uid, uid, uid); os.setresuid(uid, uid, uid)
def connect_as(uid):
    become(uid)
    sock.connect(path + "/data.sock")
    sock.send(attest)
    assert sock.recv(65536)
    os.write(made, b"!")
def heard():
    # in hexadecimal
    try:
        return sock.recv(65536).hex() or "closed"
    except ConnectionResetError:
        return "closed"
def ended(child):
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
def tell(text):
    os.write(1, text.encode())
"""
PASSED = """
owner = os.fork()
if not owner:
    connect_as(reader)
    time.sleep(60)
os.read(ready, 1)
if not os.fork():
    become(stranger)
    sock.send(read)
    tell(heard())
    os._exit(0)
os.wait()
ended(owner)
"""
OUTLIVED = """
first = os.fork()
if not first:
    connect_as(reader)
    time.sleep(60)
os.read(ready, 1)
ended(first)
become(reader)
# nothing is sent: the end comes by itself
assert select.select([sock], [], [], 20)[0]
tell(heard())
"""
STALE = """
daemon = int(sys.argv[6])
first = os.fork()
if not first:
    connect_as(reader)
    time.sleep(60)
os.read(ready, 1)
# it can't notice the death before another one has the number
os.kill(daemon, signal.SIGSTOP)
tasks = f"/proc/{daemon}/task"
# each thread stops at its own next step
while any(open(f"{tasks}/{each}/stat").read().rpartition(")")[2].split()[0] != "T"
          for each in os.listdir(tasks)):
    time.sleep(0.01)
try:
    ended(first)
    for _ in range(2000):
        with open("/proc/sys/kernel/ns_last_pid", "w") as last:
            last.write(str(first - 1))
        second = os.fork()
        if not second:
            if os.getpid() != first:
                os._exit(1)
            become(reader)
            sock.send(read)
            os.write(made, b"!")
            tell(heard())
            os._exit(0)
        if second == first:
            os.read(ready, 1)
            break
        os.waitpid(second, 0)
    else:
        tell("never")
finally:
    os.kill(daemon, signal.SIGCONT)
if second == first:
    os.waitpid(second, 0)
"""
SETUID = """
program = sys.argv[6]
take, give = os.pipe()
owner = os.fork()
if not owner:
    become(stranger)
    sock.connect(path + "/data.sock")
    os.write(made, b"!")
    os.dup2(take, 0)
    os.dup2(sock.fileno(), 1)
    os.execv(program, [program])
os.read(ready, 1)
os.write(give, attest)
first = sock.recv(65536).hex()
with open(f"/proc/{owner}/status") as status:
    effective = next(line for line in status if line.startswith("Uid:")).split()[2]
os.write(give, read)
second = heard()
ended(owner)
tell(f"{effective} {first} {second}")
"""
INHERITED = """
sock = socket.socket(socket.AF_UNIX)
sock.settimeout(20)
owner = os.fork()
if not owner:
    become(reader)
    sock.connect(path + "/grpc.sock")
    sock.sendall(b"PRI * HTTP/2.0\\r\\n\\r\\nSM\\r\\n\\r\\n" + bytes.fromhex("000000040000000000"))
    assert sock.recv(65536)
    os.write(made, b"!")
    time.sleep(60)
os.read(ready, 1)
ended(owner)
while sock.recv(65536):
    pass
tell("closed")
"""


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Daemon]:
    """A daemon that all can connect to; its own uid and the reader may read, the stranger not."""
    daemon = Daemon(tmp_path_factory.mktemp("d"), reachable=True)
    daemon.grant(READER, [PACKAGE], ["read"])
    with daemon:
        with daemon.connect(peer_uid=os.geteuid()) as client:
            publish(client, {"big": varied(3 << 20), "small": b"small"})
        yield daemon


@pytest.fixture
def daemon(shared: Daemon) -> Iterator[Daemon]:
    with unharmed(shared):
        yield shared


def told_by(program: str, daemon: Daemon, *more: str) -> str:
    packets = (ATTEST.SerializeToString().hex(), READ.SerializeToString().hex())
    arguments = [str(daemon.socket), *packets, str(READER), str(STRANGER), *more]
    done = subprocess.run(
        [sys.executable, "-c", BEGIN + program, *arguments],
        env=environment(),
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def reason_of(told: str) -> common_pb2.ErrorReason.ValueType:
    packet = pb.DaemonPacket.FromString(bytes.fromhex(told))
    assert packet.WhichOneof("packet") == "error", packet
    return packet.error.reason


def test_a_connected_socket_that_was_passed_to_another_user_gives_him_nothing(
    daemon: Daemon,
) -> None:
    assert reason_of(told_by(PASSED, daemon)) == common_pb2.ERROR_REASON_DENIED


def test_a_connection_ends_with_its_process_though_a_relative_of_it_holds_the_socket(
    daemon: Daemon,
) -> None:
    assert told_by(OUTLIVED, daemon) == "closed"
    with daemon.connect(peer_uid=os.geteuid()) as client:
        until(lambda: client.state().sessions == 1)


def test_whoever_has_the_number_of_a_dead_process_is_not_taken_for_it(daemon: Daemon) -> None:
    told = told_by(STALE, daemon, str(daemon.pid))
    assert told != "never", "the kernel never gave the number again"
    assert told == "closed" or reason_of(told) == common_pb2.ERROR_REASON_DENIED


@pytest.fixture
def setuid_program() -> Iterator[Path]:
    """A program of root's that writes what it reads, and that anybody may start."""
    with tempfile.TemporaryDirectory(prefix="sealcar-") as name:
        Path(name).chmod(0o755)
        program = Path(shutil.copy("/bin/cat", name))
        program.chmod(0o4755)
        yield program


def test_a_setuid_program_on_a_strangers_connection_speaks_for_the_stranger(
    daemon: Daemon, setuid_program: Path
) -> None:
    effective, first, second = told_by(SETUID, daemon, str(setuid_program)).split()
    if effective != "0":
        pytest.skip("programs are not set to root's uid here")
    assert pb.DaemonPacket.FromString(bytes.fromhex(first)).WhichOneof("packet") == "attested"
    # root may read it, and would have been told so
    assert reason_of(second) == common_pb2.ERROR_REASON_NOT_FOUND


def test_a_grpc_connection_ends_with_its_process_though_another_one_holds_the_socket(
    daemon: Daemon,
) -> None:
    assert told_by(INHERITED, daemon) == "closed"
