"""Stands between client and daemon on the data socket, and changes what they say."""

from __future__ import annotations

import os
import socket
import threading
from abc import ABC, abstractmethod
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Self

from sealcar.transfer.descriptors import receive, send_with_descriptor

if TYPE_CHECKING:
    from collections.abc import Callable

    from support.daemon import Daemon


class Between(ABC):
    """A data socket that passes packets and descriptors on.

    Attributes:
        socket: directory of the listener, as `sealcar.connect` takes it.
    """

    def __init__(self, daemon: Daemon) -> None:
        self._daemon = daemon
        self._folder = TemporaryDirectory(prefix="sealcar-")
        self.socket = Path(self._folder.name)
        self._listener = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self._listener.bind(str(self.socket / "data.sock"))
        self._listener.listen()
        self._threads = [threading.Thread(target=self._accept)]
        self._threads[0].start()

    @abstractmethod
    def up(self, data: bytes) -> bytes:
        """Return what the daemon gets in place of a client's packet."""

    @abstractmethod
    def down(self, data: bytes) -> bytes:
        """Return what the client gets in place of the daemon's packet."""

    def _accept(self) -> None:
        while True:
            try:
                client, _ = self._listener.accept()
            except OSError:
                return
            daemon = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
            daemon.connect(str(self._daemon.socket / "data.sock"))
            for pair in ((client, daemon, self.up), (daemon, client, self.down)):
                thread = threading.Thread(target=_pass_on, args=pair)
                thread.start()
                self._threads.append(thread)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._listener.shutdown(socket.SHUT_RDWR)
        for thread in self._threads:
            thread.join()
        self._listener.close()
        self._folder.cleanup()


def _pass_on(
    source: socket.socket, target: socket.socket, change: Callable[[bytes], bytes]
) -> None:
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
