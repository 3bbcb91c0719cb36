"""A client of the data socket's byte stream that says whatever a test wants."""

from __future__ import annotations

import socket
from typing import TYPE_CHECKING

from support.raw_clients import ATTEST, SCOPE, RawClient

from sealcar.v1 import common_pb2, payloads_pb2
from sealcar.v1 import data_socket_pb2 as pb

if TYPE_CHECKING:
    from support.daemon import Daemon


def framed(message: bytes) -> bytes:
    """Return a message with its length in front."""
    return len(message).to_bytes(4, "little") + message


class RawStream(RawClient):
    """One connection over flow.sock; nothing is done unasked."""

    def __init__(self, daemon: Daemon, *, attest: bool = True) -> None:
        self.sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self.sock.connect(str(daemon.socket / "flow.sock"))
        self.sock.settimeout(20)
        self.rings = []
        if attest:
            self.send(ATTEST)
            assert self.packet().WhichOneof("packet") == "attested"

    def send(self, packet: pb.ClientPacket) -> None:
        self.sock.sendall(framed(packet.SerializeToString()))

    def receive(self) -> tuple[pb.DaemonPacket | None, int | None]:
        """Return the next message, None at the end; never a descriptor."""
        length = self.take(4)
        if len(length) < 4:
            return None, None
        message = self.take(int.from_bytes(length, "little"))
        return pb.DaemonPacket.FromString(message), None

    def take(self, size: int) -> bytes:
        """Return so many bytes; fewer at the end."""
        got = bytearray()
        while len(got) < size:
            try:
                data = self.sock.recv(size - len(got))
            except ConnectionResetError:
                break
            if not data:
                break
            got += data
        return bytes(got)

    def start_read(self, name: str) -> None:
        """Ask for a payload."""
        self.read(name)
        assert self.packet().WhichOneof("packet") == "reading"

    def pieces(self) -> tuple[dict[int, bytes], pb.DaemonPacket]:
        """Return all pieces of a read, and what ended it."""
        found = {}
        while (packet := self.packet()).WhichOneof("packet") == "piece":
            found[packet.piece.offset] = self.take(packet.piece.size)
        return found, packet

    def start_write(self, name: str, size: int | None = None) -> bytes:
        """Begin a transaction and a payload; return the transaction."""
        begin = payloads_pb2.BeginRequest(scope=SCOPE)
        begin.scope.variant = "written"
        self.send(pb.ClientPacket(begin=begin))
        transaction = self.packet().begun.transaction
        write = payloads_pb2.WriteBegin(
            transaction=transaction, name=name, kind=common_pb2.PAYLOAD_KIND_BLOB, size=size
        )
        self.send(pb.ClientPacket(write=write))
        assert self.packet().WhichOneof("packet") == "writing"
        return transaction
