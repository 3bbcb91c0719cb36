"""Stands between client and daemon, and leaves out what daemons of older releases didn't say."""

from __future__ import annotations

import os
import socket
import threading
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Self

from sealcar.transfer.descriptors import receive, send_with_descriptor
from sealcar.v1 import data_socket_pb2 as pb

if TYPE_CHECKING:
    from support.daemon import Daemon


class OlderDaemon:
    """A data socket that passes everything on, but that the daemon has segments.

    Attributes:
        socket: directory of the listener, as `sealcar.connect` takes it.
        asked: names of the packets that clients sent.
    """

    def __init__(self, daemon: Daemon) -> None:
        self._daemon = daemon
        self._folder = TemporaryDirectory(prefix="sealcar-")
        self.socket = Path(self._folder.name)
        self.asked: list[str] = []
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
            for pair in ((client, daemon, self._up), (daemon, client, _down)):
                thread = threading.Thread(target=_pass_on, args=pair)
                thread.start()
                self._threads.append(thread)

    def _up(self, data: bytes) -> bytes:
        self.asked.append(pb.ClientPacket.FromString(data).WhichOneof("packet") or "")
        return data

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._listener.shutdown(socket.SHUT_RDWR)
        for thread in self._threads:
            thread.join()
        self._listener.close()
        self._folder.cleanup()


def _down(data: bytes) -> bytes:
    packet = pb.DaemonPacket.FromString(data)
    if packet.HasField("attested"):
        packet.attested.ClearField("segments")
    return packet.SerializeToString()


def _pass_on(source: socket.socket, target: socket.socket, change: object) -> None:
    assert callable(change)
    try:
        while True:
            data, descriptor = receive(source)
            if not data:
                return
            if descriptor is None:
                target.send(change(data))
            else:
                send_with_descriptor(target, change(data), descriptor, 0)
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
