"""The way to a daemon by a Unix socket: the kernel says whose it is before anything is sent."""

from __future__ import annotations

import os
import socket
import struct
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final
from urllib.parse import quote

import grpc

from sealcar import errors
from sealcar.rpc import OPTIONS
from sealcar.transfer.location import LONGEST

if TYPE_CHECKING:
    from pathlib import Path

_CREDENTIALS: Final = struct.Struct("3i")


@dataclass(frozen=True)
class UnixLine:
    """A socket of the daemon.

    Attributes:
        path: of the socket.
        peer_uid: nothing is sent to a server of another uid.
    """

    path: Path
    peer_uid: int

    def open(self, timeout: float) -> grpc.Channel:
        """Return a channel to a server of that uid.

        Raises:
            UnavailableError: nobody listens there, or somebody of another uid.
            InvalidRequestError: the path is too long for a socket.
        """
        _check_peer(self, timeout)
        target = "unix:" + quote(str(self.path.absolute()))
        return grpc.insecure_channel(target, options=OPTIONS)

    def state(self) -> None:
        """Nothing that could change."""

    def unreachable(self, reason: str) -> errors.UnavailableError:
        """Say that no daemon answers, and what to do about it."""
        return errors.UnavailableError(
            f"no daemon answers at {self.path} ({reason}); start one with `sealcar serve`,"
            " or name its listener directory with --socket or SEALCAR_SOCKET",
            retry_after=1.0,
        )


def _check_peer(line: UnixLine, timeout: float) -> None:
    """Connect once and ask the kernel whose socket it is."""
    path = line.path
    try:
        raw = os.fsencode(path.absolute())
    except UnicodeEncodeError:
        raise errors.InvalidRequestError(f"{str(path)!a} is the path of no socket") from None
    if len(raw) > LONGEST:
        raise errors.InvalidRequestError(
            f"socket path {path} has {len(raw)} bytes; the kernel takes at most {LONGEST}"
        )
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as probe:
        probe.settimeout(timeout)
        try:
            probe.connect(raw)
        except OSError as error:
            raise line.unreachable(os.strerror(error.errno or 0)) from error
        found = probe.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _CREDENTIALS.size)
    _, found_uid, _ = _CREDENTIALS.unpack(found)
    if found_uid != line.peer_uid:
        raise errors.UnavailableError(
            f"{path} is served by uid {found_uid}, not by uid {line.peer_uid};"
            " set SEALCAR_PEER_UID if that is the daemon's"
        )
