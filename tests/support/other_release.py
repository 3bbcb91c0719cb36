"""Stands between client and daemon, and has each look like a newer release to the other."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from support.between import Between

from sealcar.v1 import data_socket_pb2 as pb

if TYPE_CHECKING:
    from google.protobuf.message import Message
    from support.daemon import Daemon

# a field of number 5000, text: no release has it yet
_UNKNOWN: Final = b"\xc2\xb8\x02\x05later"


class BetweenReleases(Between):
    """A data socket that passes everything on with unknown fields in every message.

    Its gRPC socket is the daemon's own.

    Attributes:
        passed: how many packets.
    """

    def __init__(self, daemon: Daemon) -> None:
        self.passed = 0
        super().__init__(daemon)
        (self.socket / "grpc.sock").symlink_to(daemon.socket / "grpc.sock")

    def up(self, data: bytes) -> bytes:
        """Add to a client's packet."""
        return self._extended(pb.ClientPacket(), data)

    def down(self, data: bytes) -> bytes:
        """Add to the daemon's packet."""
        return self._extended(pb.DaemonPacket(), data)

    def _extended(self, packet: Message, data: bytes) -> bytes:
        packet.ParseFromString(data)
        _extend(packet)
        changed = packet.SerializeToString()
        assert len(changed) > len(data)
        self.passed += 1
        return changed


def _extend(message: Message) -> None:
    """Give a message and all that are in it a field that nobody knows."""
    for field, value in message.ListFields():
        if field.message_type is None:
            continue
        inside: Any = value
        for each in inside if field.is_repeated else [inside]:
            _extend(each)
    message.MergeFromString(_UNKNOWN)
