"""Packets of the data socket as they arrive: their bytes, and who the kernel says sent them."""

from __future__ import annotations

import os
import socket as sockets
import struct
from typing import TYPE_CHECKING, Final, NamedTuple

from sealcar.errors import DeniedError, InvalidRequestError
from sealcar.transfer.descriptors import PACKET, close_all, passed

if TYPE_CHECKING:
    from collections.abc import Sequence

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
        handle: inode of its pidfd, unique since Linux 6.9; 0 where the kernel has none.
    """

    pid: int
    uid: int
    gid: int
    handle: int


NOBODY: Final = Sender(0, 0, 0, 0)


class OneSender:
    """The one process that may send on a connection.

    Args:
        pid: who connected; 0 if it lives in another pid namespace.
        pidfd: a handle on it, which stays the caller's; None if there is none.
    """

    def __init__(self, pid: int, pidfd: int | None) -> None:
        self._pid = pid
        self._handle = os.fstat(pidfd).st_ino if pidfd is not None else 0
        self._first: Sender | None = None

    def is_same(self, sender: Sender) -> bool:
        """Tell whether this is the process that connected, and that sent the first packet."""
        if self._first is None:
            if self._pid and sender.pid != self._pid:
                return False
            # a pid says nothing across namespaces, and can have been used again
            if self._handle and sender.handle and sender.handle != self._handle:
                return False
            self._first = sender
        return sender == self._first


def name_senders(listener: sockets.socket) -> None:
    """Have the kernel name the sender of every packet on connections that are accepted here."""
    listener.setsockopt(sockets.SOL_SOCKET, sockets.SO_PASSCRED, 1)
    try:
        listener.setsockopt(sockets.SOL_SOCKET, _SO_PASSPIDFD, 1)
    except OSError:
        return  # before Linux 6.5: pid, uid and gid have to do


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
