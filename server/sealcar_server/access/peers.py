"""Who is at the other end of a Unix connection, by the kernel's word alone.

SO_PEERCRED gives uid and gid as of connect(2). SO_PEERPIDFD gives a handle on the very process that
connected, so a reused pid can't be taken for it. How sure the end of a session is depends on the
kernel: `Peer.assurance` is one of three words.
"""

from __future__ import annotations

import errno
import functools
import os
import socket as sockets
import struct
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

from sealcar.errors import DeniedError
from sealcar_server.access.principal import Principal

if TYPE_CHECKING:
    from collections.abc import Hashable

SO_PEERPIDFD: Final = 77  # not named in Python; Linux 6.5
_UCRED: Final = struct.Struct("iII")
_START_TIME: Final = 19  # field 22 of /proc/PID/stat, counted behind the command's name


@dataclass(frozen=True)
class Kernel:
    """By what a kernel names a process.

    Attributes:
        unique: a handle's inode belongs to one process alone (Linux 6.9).
    """

    unique: bool

    @staticmethod
    @functools.cache
    def here() -> Kernel:
        """Look at this one.

        Before 6.9 all anonymous descriptors shared one inode, an event counter's among them.
        """
        counter = os.eventfd(0, os.EFD_CLOEXEC)
        mine = os.pidfd_open(os.getpid())
        try:
            a, b = os.fstat(counter), os.fstat(mine)
        finally:
            os.close(counter)
            os.close(mine)
        return Kernel((a.st_dev, a.st_ino) != (b.st_dev, b.st_ino))


@dataclass(frozen=True)
class Peer:
    """The process that connected.

    Attributes:
        principal: who it is for the policy.
        pid: its number in the daemon's pid namespace; 0 if it lives in another one.
        pidfd: a handle on it, owned by whoever holds this value; None if there is none.
        session_key: equal for all connections of one process, and for no others.
        assurance: "pidfd", "pidfd-shared" (older kernels) or "connection" (no handle on it).
    """

    principal: Principal
    pid: int
    pidfd: int | None
    session_key: Hashable
    assurance: str

    def close(self) -> None:
        """Give the handle on the process back."""
        if self.pidfd is not None:
            os.close(self.pidfd)


def peer_of(socket: sockets.socket, listener: str, kernel: Kernel | None = None) -> Peer:
    """Return who connected.

    Args:
        socket: of the connection.
        listener: where it was accepted.
        kernel: how much can be relied on; None: as this one is.

    Raises:
        DeniedError: the process is gone already, or the kernel doesn't say who it was.
    """
    pidfd = None
    try:
        raw = socket.getsockopt(sockets.SOL_SOCKET, sockets.SO_PEERCRED, _UCRED.size)
        pid, uid, gid = _UCRED.unpack(raw)
        pidfd = _pidfd(socket, pid)
        key, assurance = _session_key(pid, pidfd, kernel or Kernel.here())
    except OSError as error:
        if pidfd is not None:
            os.close(pidfd)
        raise DeniedError("the process that connected is gone, or unknown to the kernel") from error
    return Peer(Principal(listener, uid, gid), pid, pidfd, key, assurance)


def principal_of(socket: sockets.socket, listener: str) -> Principal:
    """Return for whom a connection is counted, without a handle on the process; as `peer_of`.

    Raises:
        DeniedError: the kernel doesn't say who it was.
    """
    try:
        raw = socket.getsockopt(sockets.SOL_SOCKET, sockets.SO_PEERCRED, _UCRED.size)
    except OSError as error:
        raise DeniedError("who connected is unknown to the kernel") from error
    _, uid, gid = _UCRED.unpack(raw)
    return Principal(listener, uid, gid)


def _pidfd(socket: sockets.socket, pid: int) -> int | None:
    try:
        return socket.getsockopt(sockets.SOL_SOCKET, SO_PEERPIDFD)
    except OSError as error:
        if error.errno != errno.ENOPROTOOPT:
            raise
    # before Linux 6.5; if the pid was reused since, the session ends early or late, and no more
    return os.pidfd_open(pid) if pid else None


def _session_key(pid: int, pidfd: int | None, kernel: Kernel) -> tuple[Hashable, str]:
    if pidfd is not None and kernel.unique:
        return ("pidfd", os.fstat(pidfd).st_ino), "pidfd"
    started = _start_time(pid) if pidfd is not None else None
    if started is not None:
        return ("pid", pid, started), "pidfd-shared"
    return ("connection", object()), "connection"


def _start_time(pid: int) -> str | None:
    try:
        stat = Path(f"/proc/{pid}/stat").read_text(encoding="ascii", errors="replace")
    except OSError:
        return None
    return stat.rpartition(")")[2].split()[_START_TIME]
