"""A client of the data socket that says whatever a test wants, and what a process holds open."""

from __future__ import annotations

import contextlib
import ctypes
import os
import socket
import time
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Final, Self

from support.payload_packages import COMPONENT, PACKAGE, VARIANT

from sealcar.transfer.descriptors import receive
from sealcar.transfer.rings import AttachedRing
from sealcar.v1 import common_pb2, payloads_pb2
from sealcar.v1 import data_socket_pb2 as pb

if TYPE_CHECKING:
    from collections.abc import Callable

    from support.daemon import Daemon

SCOPE: Final = common_pb2.Scope(
    package=common_pb2.PackageRef(name=PACKAGE), component=COMPONENT, variant=VARIANT
)
_RING: Final = "memfd:sealcar-ring"
# the map's own, the one to look who has it, and the one for the client
_NOT_HANDED_OVER: Final = 3
ATTEST: Final = pb.ClientPacket(attest=pb.Attest(protocol=1, release="raw"))


class RawClient:
    """One connection; nothing is done unasked."""

    def __init__(self, daemon: Daemon, *, attest: bool = True) -> None:
        self.sock = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self.sock.connect(str(daemon.socket / "data.sock"))
        self.sock.settimeout(20)
        self.rings: list[AttachedRing] = []
        if attest:
            self.send(ATTEST)
            kind = self.kind()
            if kind != "attested":
                self.close()
            assert kind == "attested"

    def send(self, packet: pb.ClientPacket) -> None:
        self.sock.send(packet.SerializeToString())

    def receive(self) -> tuple[pb.DaemonPacket | None, int | None]:
        """Return the next packet, None at the end, and its descriptor."""
        try:
            data, descriptor = receive(self.sock)
        except ConnectionResetError:
            data, descriptor = receive(self.sock)
        return (pb.DaemonPacket.FromString(data) if data else None), descriptor

    def packet(self) -> pb.DaemonPacket:
        """Return the next packet; a ring is mapped but not acknowledged."""
        packet, descriptor = self.receive()
        assert packet is not None, "the daemon closed"
        if descriptor is not None:
            writable = packet.HasField("write_ring")
            ring = packet.write_ring if writable else packet.ring
            self.rings.append(
                AttachedRing.take(descriptor, ring.slots, ring.slot_size, writable=writable)
            )
        return packet

    def kind(self) -> str | None:
        """Return the next packet's kind; None at the end."""
        packet, descriptor = self.receive()
        if descriptor is not None:
            os.close(descriptor)
        return packet.WhichOneof("packet") if packet else None

    def error(self) -> common_pb2.ErrorDetail:
        """Return the next error, past whatever comes before it."""
        while True:
            packet = self.packet()
            if packet.WhichOneof("packet") == "error":
                return packet.error

    def closed(self) -> bool:
        """Wait for the daemon's end of the connection."""
        while True:
            packet, descriptor = self.receive()
            if descriptor is not None:
                os.close(descriptor)
            if packet is None:
                return True

    def read(self, name: str) -> None:
        """Ask for a payload."""
        self.send(pb.ClientPacket(read=payloads_pb2.ReadRequest(scope=SCOPE, name=name)))

    def start_read(self, name: str) -> None:
        """Ask for a payload, and map the ring."""
        self.read(name)
        assert self.packet().WhichOneof("packet") == "ring"
        self.mapped()
        assert self.packet().WhichOneof("packet") == "reading"

    def start_write(self, name: str, size: int | None = None) -> bytes:
        """Begin a transaction and a payload; return the transaction."""
        begin = payloads_pb2.BeginRequest(scope=SCOPE)
        begin.scope.variant = "written"
        self.send(pb.ClientPacket(begin=begin))
        transaction = self.packet().begun.transaction
        kind = common_pb2.PAYLOAD_KIND_BLOB
        write = payloads_pb2.WriteBegin(transaction=transaction, name=name, kind=kind, size=size)
        self.send(pb.ClientPacket(write=write))
        assert self.packet().WhichOneof("packet") == "write_ring"
        self.mapped()
        assert self.packet().WhichOneof("packet") == "writing"
        return transaction

    def mapped(self) -> None:
        """Acknowledge the ring."""
        self.send(pb.ClientPacket(ring_mapped=pb.RingMapped()))

    def free(self, *slots: int) -> None:
        """Give slots back."""
        self.send(pb.ClientPacket(free=pb.Free(slots=slots)))

    def piece(self, slot: int, offset: int, size: int, *, last: bool = False) -> None:
        """Announce a piece."""
        self.send(pb.ClientPacket(piece=pb.Piece(slot=slot, offset=offset, size=size, last=last)))

    def fill(self, slot: int, data: bytes) -> None:
        """Put bytes into a slot of the write ring."""
        ctypes.memmove(self.rings[-1].address(slot, len(data)), data, len(data))

    def close(self) -> None:
        """Close everything."""
        self.sock.close()
        for ring in self.rings:
            ring.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def descriptors(pid: int) -> int:
    """Return how many descriptors a process holds open, but those of a ring that is made ahead."""
    return len(list(Path(f"/proc/{pid}/fd").iterdir())) - _NOT_HANDED_OVER * made_ahead(pid)


def memfds(pid: int) -> int:
    """Return how many rings a process has mapped, but the one that is made ahead."""
    maps = Path(f"/proc/{pid}/maps").read_text()
    return sum(_RING in line for line in maps.splitlines()) - made_ahead(pid)


def made_ahead(pid: int) -> int:
    """Return how many rings still have the descriptor that a client would get."""
    seen: Counter[int] = Counter()
    for path in Path(f"/proc/{pid}/fd").iterdir():
        with contextlib.suppress(FileNotFoundError):
            if _RING in str(path.readlink()):
                seen[path.stat().st_ino] += 1
    return sum(count == _NOT_HANDED_OVER for count in seen.values())


def until(condition: Callable[[], bool], timeout: float = 15) -> None:
    """Wait until a condition holds."""
    deadline = time.monotonic() + timeout
    while not condition():
        assert time.monotonic() < deadline, "it never came true"
        time.sleep(0.02)
