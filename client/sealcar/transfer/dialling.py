"""Connecting: to a daemon that may not be there yet, and to nobody else than that daemon."""

from __future__ import annotations

import errno
import socket
import struct
import time
from typing import TYPE_CHECKING, Final

from sealcar.errors import DeniedError, UnavailableError

if TYPE_CHECKING:
    from sealcar.transfer.location import Location

RETRY: Final = 0.05
_UCRED: Final = struct.Struct("3i")


def dial(location: Location, deadline: float, *, stream: bool = False) -> socket.socket:
    """Return a socket that is connected to the right daemon.

    Args:
        location: where, and as whom.
        deadline: until when to wait for a daemon that isn't there yet (time.monotonic).
        stream: to the socket for those who can't be handed memory.

    Raises:
        NoSharedMemoryError: there are no sockets here that could carry descriptors.
        UnavailableError: no daemon by the deadline, or one of another uid.
        DeniedError: the socket's permissions keep this process out.
        ConfigurationError: nothing says which uid the daemon must have.
    """
    while True:
        sock = _made(stream=stream)
        try:
            sock.settimeout(max(RETRY, deadline - time.monotonic()))
            expected = location.expected_uid()
            sock.connect(location.flow if stream else location.data)
            _check_peer(sock, expected, location)
        except PermissionError as error:
            sock.close()
            raise DeniedError(f"the data socket of {location.directory} isn't for us") from error
        except (OSError, UnavailableError) as error:
            sock.close()
            if isinstance(error, _WrongPeerError) or time.monotonic() + RETRY >= deadline:
                raise UnavailableError(f"no daemon at {location.directory}: {error}") from error
            time.sleep(RETRY)
        except BaseException:
            sock.close()
            raise
        else:
            return sock


def _made(*, stream: bool) -> socket.socket:
    try:
        return socket.socket(
            socket.AF_UNIX, socket.SOCK_STREAM if stream else socket.SOCK_SEQPACKET
        )
    except OSError as error:
        if stream or error.errno in {errno.EMFILE, errno.ENFILE, errno.ENOMEM, errno.ENOBUFS}:
            raise UnavailableError(f"no socket could be made: {error.strerror}") from error
        raise NoSharedMemoryError(f"no packet socket could be made: {error.strerror}") from error


class NoSharedMemoryError(UnavailableError):
    """This process can't be handed memory: a ring can't be used here, a stream can."""


class _WrongPeerError(UnavailableError):
    """Somebody else listens there: waiting won't help."""


def _check_peer(sock: socket.socket, expected: int, location: Location) -> None:
    raw = sock.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _UCRED.size)
    _, uid, _ = _UCRED.unpack(raw)
    if uid != expected:
        raise _WrongPeerError(
            f"uid {uid} listens at {location.directory}, but the daemon must have uid {expected}"
        )
