"""Stands between client and daemon, and has each look like a newer release to the other."""

from __future__ import annotations

import os
import socket
import threading
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any, Final, Self

from sealcar.transfer.descriptors import receive, send_with_descriptor
from sealcar.v1 import data_socket_pb2 as pb

if TYPE_CHECKING:
    from google.protobuf.message import Message
    from support.daemon import Daemon

# a field of number 5000, text: no release has it yet
_UNKNOWN: Final = b"\xc2\xb8\x02\x05later"


class BetweenReleases:
    """A data socket that passes everything on with unknown fields in every message.

    Its gRPC socket is the daemon's own.

    Attributes:
        socket: directory of the listener, as `sealcar.connect` takes it.
        passed: how many packets.
    """

    def __init__(self, daemon: Daemon) -> None:
        self._daemon = daemon
        self._folder = TemporaryDirectory(prefix="sealcar-")
        self.socket = Path(self._folder.name)
        self.passed = 0
        (self.socket / "grpc.sock").symlink_to(daemon.socket / "grpc.sock")
        self._listener = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self._listener.bind(str(self.socket / "data.sock"))
        self._listener.listen()
        self._threads = [threading.Thread(target=self._accept)]
        self._threads[0].start()

    def _accept(self) -> None:
        while True:
            try:
                client, _ = self._listener.accept()
            except OSError:
                return
            daemon = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
            daemon.connect(str(self._daemon.socket / "data.sock"))
            for pair in ((client, daemon, pb.ClientPacket()), (daemon, client, pb.DaemonPacket())):
                thread = threading.Thread(target=self._pass_on, args=pair)
                thread.start()
                self._threads.append(thread)

    def _pass_on(self, source: socket.socket, target: socket.socket, packet: Message) -> None:
        try:
            while True:
                data, descriptor = receive(source)
                if not data:
                    return
                packet.ParseFromString(data)
                _extend(packet)
                changed = packet.SerializeToString()
                assert len(changed) > len(data)
                self.passed += 1
                if descriptor is None:
                    target.send(changed)
                else:
                    send_with_descriptor(target, changed, descriptor, 0)
                    os.close(descriptor)
        except OSError:
            return
        finally:
            for each in (source, target):
                try:
                    each.shutdown(socket.SHUT_RDWR)
                except OSError:
                    continue
            source.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._listener.shutdown(socket.SHUT_RDWR)
        for thread in self._threads:
            thread.join()
        self._listener.close()
        self._folder.cleanup()


def _extend(message: Message) -> None:
    """Give a message and all that are in it a field that nobody knows."""
    for field, value in message.ListFields():
        if field.message_type is None:
            continue
        inside: Any = value
        for each in inside if field.is_repeated else [inside]:
            _extend(each)
    message.MergeFromString(_UNKNOWN)
