"""The next packet of a data socket, and what it means if none can be had."""

from __future__ import annotations

import errno
from typing import TYPE_CHECKING, Final

from sealcar.transfer.descriptors import receive
from sealcar.transfer.dialling import NoSharedMemoryError

if TYPE_CHECKING:
    import socket

# what a sandbox says that lets nobody receive descriptors
_FORBIDDEN: Final = frozenset({errno.EPERM, errno.EACCES, errno.ENOSYS, errno.EOPNOTSUPP})


def next_packet(sock: socket.socket) -> tuple[bytes, int | None]:
    """Return a packet and the descriptor that came with it; no bytes: the daemon has closed.

    Raises:
        NoSharedMemoryError: this process may not receive what could carry descriptors.
        UnavailableError: the packet breaks the rules.
        OSError: as recvmsg does.
    """
    try:
        return receive(sock)
    except ConnectionResetError:
        # comes once, and before the packets that the daemon sent before it closed
        return receive(sock)
    except OSError as error:
        if error.errno in _FORBIDDEN:
            raise NoSharedMemoryError(f"descriptors can't be received: {error}") from error
        raise
