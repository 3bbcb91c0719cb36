"""Whether memory can be handed over here at all, tried without a daemon."""

from __future__ import annotations

import os
import socket

from sealcar.errors import SealcarError
from sealcar.transfer.descriptors import (
    FIXED_SIZE,
    Seal,
    memory,
    read_only,
    receive,
    seal,
    send_with_descriptor,
)
from sealcar.transfer.dialling import NoSharedMemoryError
from sealcar.transfer.memory import PIECE
from sealcar.transfer.rings import AttachedRing


def try_handing_over() -> None:
    """Hand a ring from this process to itself, as a daemon hands one to its clients.

    That it works says little where a sandbox separates this process from the daemon's.

    Raises:
        NoSharedMemoryError: it doesn't work, and so a daemon's wouldn't.
    """
    try:
        near, far = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with near, far:
            _hand_over(near, far)
    except NoSharedMemoryError:
        raise
    except (OSError, SealcarError) as error:
        raise NoSharedMemoryError(f"memory can't be handed over here: {error}") from error


def _hand_over(near: socket.socket, far: socket.socket) -> None:
    made = memory("sealcar-trial", PIECE)
    try:
        seal(made, FIXED_SIZE | Seal.SEAL | Seal.FUTURE_WRITE)
        theirs = read_only(made)
        try:
            send_with_descriptor(near, b"ring", theirs, 0)
        finally:
            os.close(theirs)
    finally:
        os.close(made)
    _, descriptor = receive(far)
    if descriptor is None:
        raise NoSharedMemoryError("descriptors get lost on their way")
    AttachedRing.take(descriptor, 1, PIECE, writable=False).close()
