"""Packets of the data socket as they arrive: their bytes, and who the kernel says sent them."""

from __future__ import annotations

import contextlib
import os
import select
import socket as sockets
import struct
from typing import TYPE_CHECKING, Final, NamedTuple

from sealcar.errors import DeniedError, InvalidRequestError
from sealcar.transfer.descriptors import PACKET, close_all, passed

if TYPE_CHECKING:
    from collections.abc import Sequence

    from sealcar_server.access.peers import Peer

_UCRED: Final = struct.Struct("3i")
# Linux 6.5; Python names neither
_SO_PASSPIDFD: Final = 76
_SCM_PIDFD: Final = 4
_DESCRIPTORS: Final = 8
# as numbers: the ones with names take a microsecond each time
_CUT: Final = int(sockets.MSG_TRUNC)
_LOST: Final = int(sockets.MSG_CTRUNC)
_ANCILLARY: Final = (
    sockets.CMSG_SPACE(_UCRED.size) + sockets.CMSG_SPACE(4) + sockets.CMSG_SPACE(4 * _DESCRIPTORS)
)


class Sender(NamedTuple):
    """A process, as the kernel names the sender of a packet.

    Attributes:
        pid: 0 if it lives in another pid namespace.
        uid, gid: its real ids.
        handle: inode of its pidfd, unique since Linux 6.9; 0 where none came.
    """

    pid: int
    uid: int
    gid: int
    handle: int


NOBODY: Final = Sender(0, 0, 0, 0)


class OneSender:
    """The one process that may send on a connection.

    No number is given to a second process while the first one lives. So a packet that came with the
    number of the one that connected is that one's, if it still lives now that the packet is here.
    One of another pid namespace has no number: the kernel makes a handle on the sender of each
    packet then, which takes it several times as long as to say that somebody lives.

    Args:
        sock: the connection, which stays the caller's.
        peer: who connected, which stays the caller's too.
    """

    def __init__(self, sock: sockets.socket, peer: Peer) -> None:
        self._pid, self._handle = peer.pid, 0
        self._first: Sender | None = None
        self._life: select.poll | None = None
        self._pidfd = -1
        if peer.pid and peer.pidfd is not None:
            self._pidfd = os.dup(peer.pidfd)
            self._life = select.poll()
            self._life.register(self._pidfd, select.POLLIN)
        else:
            self._handle = os.fstat(peer.pidfd).st_ino if peer.pidfd is not None else 0
            _name_handles(sock)

    def is_same(self, sender: Sender) -> bool:
        """Tell whether this is the process that connected, and that sent the first packet."""
        if self._first is None:
            if self._pid and sender.pid != self._pid:
                return False
            # a number says nothing across namespaces
            if self._handle and sender.handle and sender.handle != self._handle:
                return False
            self._first = sender
        return sender == self._first and (self._life is None or not self._life.poll(0))

    def close(self) -> None:
        """Let go of the process. Nobody is the same any more."""
        self._first, self._pid = NOBODY, -1
        if self._pidfd >= 0:
            os.close(self._pidfd)
            self._pidfd = -1


def name_senders(listener: sockets.socket) -> None:
    """Have the kernel say who sends each packet on connections that are accepted here."""
    listener.setsockopt(sockets.SOL_SOCKET, sockets.SO_PASSCRED, 1)


def _name_handles(sock: sockets.socket) -> None:
    # before Linux 6.5 there are none: uid and gid have to do
    with contextlib.suppress(OSError):
        sock.setsockopt(sockets.SOL_SOCKET, _SO_PASSPIDFD, 1)


def receive(sock: sockets.socket) -> tuple[bytes, Sender]:
    """Return one packet and its sender; no bytes: the client has closed.

    Raises:
        InvalidRequestError: the packet is over the limit.
        DeniedError: it brought descriptors, which are closed, or the kernel doesn't name a sender.
        BlockingIOError: none has arrived.
        OSError: as recvmsg does.
    """
    data, ancillary, flags, _ = sock.recvmsg(PACKET, _ANCILLARY, sockets.MSG_CMSG_CLOEXEC)
    sender = _checked(ancillary, flags)
    if flags & _CUT:
        raise InvalidRequestError(f"a packet may have at most {PACKET} bytes")
    return data, _known(sender) if data else NOBODY


def receive_into(sock: sockets.socket, room: memoryview) -> tuple[int, Sender]:
    """Fill room with what has come on a byte stream from one sender; 0: the client has closed.

    Raises:
        DeniedError: it brought descriptors, which are closed, or the kernel doesn't name a sender.
        BlockingIOError: nothing has come.
        OSError: as recvmsg does.
    """
    count, ancillary, flags, _ = sock.recvmsg_into([room], _ANCILLARY, sockets.MSG_CMSG_CLOEXEC)
    sender = _checked(ancillary, flags)
    return count, _known(sender) if count else NOBODY


def _checked(ancillary: list[tuple[int, int, bytes]], flags: int) -> Sender | None:
    sender = _sender(ancillary)
    descriptors = passed(ancillary)
    close_all(descriptors)
    if descriptors or flags & _LOST:
        raise DeniedError("clients must not send descriptors")
    return sender


def _known(sender: Sender | None) -> Sender:
    if sender is None:
        raise DeniedError("the kernel doesn't say who sent this packet")
    return sender


def _sender(ancillary: Sequence[tuple[int, int, bytes]]) -> Sender | None:
    credentials: tuple[int, int, int] | None = None
    handle = 0
    for level, kind, payload in ancillary:
        if level != sockets.SOL_SOCKET:
            continue
        if kind == sockets.SCM_CREDENTIALS and len(payload) >= _UCRED.size:
            credentials = _UCRED.unpack_from(payload)
        elif kind == _SCM_PIDFD:
            handle = _inode(payload)
    return Sender(*credentials, handle) if credentials else None


def _inode(payload: bytes) -> int:
    descriptor = int.from_bytes(payload[:4], "little", signed=True)
    if descriptor < 0:
        return -1  # the sender is gone: equal to no living one
    try:
        return os.fstat(descriptor).st_ino
    finally:
        os.close(descriptor)
