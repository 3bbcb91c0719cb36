"""Stands between client and daemon, and leaves out what daemons of older releases didn't say."""

from __future__ import annotations

from typing import TYPE_CHECKING

from support.between import Between

from sealcar.v1 import data_socket_pb2 as pb

if TYPE_CHECKING:
    from support.daemon import Daemon


class OlderDaemon(Between):
    """A data socket that passes everything on, but that the daemon has segments.

    Attributes:
        asked: names of the packets that clients sent.
    """

    def __init__(self, daemon: Daemon) -> None:
        self.asked: list[str] = []
        super().__init__(daemon)

    def up(self, data: bytes) -> bytes:
        """Pass it on, and note its name."""
        self.asked.append(pb.ClientPacket.FromString(data).WhichOneof("packet") or "")
        return data

    def down(self, data: bytes) -> bytes:
        """Leave out that there are segments."""
        packet = pb.DaemonPacket.FromString(data)
        if packet.HasField("attested"):
            packet.attested.ClearField("segments")
        return packet.SerializeToString()
