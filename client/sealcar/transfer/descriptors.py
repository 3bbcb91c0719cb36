"""Packets with descriptors, memfds and their seals: what both sides of the data socket need.

A descriptor is received close-on-exec or not at all. A memory that another process could still
shrink is never mapped: touching it could raise SIGBUS.
"""

from __future__ import annotations

import array
import ctypes
import enum
import fcntl
import os
import socket
import struct
from typing import TYPE_CHECKING, Final

from sealcar.closing import Closing
from sealcar.errors import InternalError, InvalidRequestError, UnavailableError

if TYPE_CHECKING:
    from typing_extensions import Buffer

PACKET: Final = 65_536
# one descriptor and not a byte more: CMSG_SPACE's padding has room for a second one
_ONE_DESCRIPTOR: Final = socket.CMSG_LEN(4)
_MFD_NOEXEC_SEAL: Final = 8
# as numbers: the ones with names take a microsecond each time
_CUT: Final = int(socket.MSG_TRUNC)
_LOST: Final = int(socket.MSG_CTRUNC)
_TIMEVAL: Final = struct.Struct("@ll")


class Seal(enum.IntFlag):
    """What fcntl(F_ADD_SEALS) forbids from then on."""

    SEAL = 1
    SHRINK = 2
    GROW = 4
    WRITE = 8
    FUTURE_WRITE = 16


FIXED_SIZE: Final = Seal.SHRINK | Seal.GROW


def receive(sock: socket.socket) -> tuple[bytes, int | None]:
    """Return one packet and the descriptor that came with it; no bytes: the peer has closed.

    Raises:
        UnavailableError: the packet is over the limit, or brought more than one descriptor.
        OSError: as recvmsg does.
    """
    data, ancillary, flags, _ = sock.recvmsg(PACKET, _ONE_DESCRIPTOR, socket.MSG_CMSG_CLOEXEC)
    descriptors = passed(ancillary)
    # one that got lost on the way whole is merely missing
    if flags & _CUT or (flags & _LOST and descriptors):
        close_all(descriptors)
        raise UnavailableError("a packet over the limits of the data socket came in")
    return data, (descriptors[0] if descriptors else None)


def wait_at_most(sock: socket.socket, seconds: float) -> None:
    """Have every call on a socket end after so long, with BlockingIOError.

    By the kernel's own timeout: with Python's, each call would be two.
    """
    whole = int(seconds)
    # none at all would mean for ever
    longest = _TIMEVAL.pack(whole, max(1, int((seconds - whole) * 1e6)))
    sock.settimeout(None)
    for direction in (socket.SO_RCVTIMEO, socket.SO_SNDTIMEO):
        sock.setsockopt(socket.SOL_SOCKET, direction, longest)


def passed(ancillary: list[tuple[int, int, bytes]]) -> list[int]:
    """Return the descriptors among a packet's ancillary data; the caller owns them."""
    if not ancillary:
        return []
    descriptors = array.array("i")
    for level, kind, payload in ancillary:
        if (level, kind) == (socket.SOL_SOCKET, socket.SCM_RIGHTS):
            whole = len(payload) - len(payload) % descriptors.itemsize
            descriptors.frombytes(payload[:whole])
    return descriptors.tolist()


def close_all(descriptors: list[int]) -> None:
    """Close every descriptor of the list."""
    for descriptor in descriptors:
        os.close(descriptor)


def send_with_descriptor(sock: socket.socket, data: bytes, descriptor: int, flags: int) -> None:
    """Send one packet with one descriptor, which stays open on this side."""
    rights = array.array("i", [descriptor])
    sock.sendmsg([data], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, rights)], flags)


def memory(name: str, size: int) -> int:
    """Return the descriptor of a new memory that can be sealed and that no other uid can open."""
    descriptor = os.memfd_create(name, os.MFD_CLOEXEC | _MFD_NOEXEC_SEAL)
    try:
        os.fchmod(descriptor, 0o400)
        os.ftruncate(descriptor, size)
    except OSError:
        os.close(descriptor)
        raise
    return descriptor


def seal(descriptor: int, seals: Seal) -> None:
    """Add seals, for ever."""
    fcntl.fcntl(descriptor, fcntl.F_ADD_SEALS, int(seals))


def seals_of(descriptor: int) -> Seal:
    """Return the seals of a memory; none for anything that isn't one."""
    try:
        return Seal(fcntl.fcntl(descriptor, fcntl.F_GET_SEALS) & 0x1F)
    except OSError:
        return Seal(0)


def read_only(descriptor: int) -> int:
    """Return a second open file of the same memory, without the right to write."""
    return os.open(f"/proc/self/fd/{descriptor}", os.O_RDONLY | os.O_CLOEXEC)


class _PyBuffer(ctypes.Structure):
    """CPython's Py_buffer, stable since 3.11."""

    _fields_ = (
        ("buf", ctypes.c_void_p),
        ("obj", ctypes.c_void_p),
        ("len", ctypes.c_ssize_t),
        ("itemsize", ctypes.c_ssize_t),
        ("flags", ctypes.c_int * 2),
        ("pointers", ctypes.c_void_p * 5),
    )


# prototypes of our own: the shared ones of ctypes.pythonapi are anybody's to change
_get_buffer = ctypes.PYFUNCTYPE(
    ctypes.c_int, ctypes.py_object, ctypes.POINTER(_PyBuffer), ctypes.c_int
)(("PyObject_GetBuffer", ctypes.pythonapi))
_release_buffer = ctypes.PYFUNCTYPE(None, ctypes.POINTER(_PyBuffer))(
    ("PyBuffer_Release", ctypes.pythonapi)
)


class Exported(Closing):
    """A buffer's address, valid while this object is open: its owner can't free or resize it.

    Args:
        buffer: anything that is contiguous memory.
        writable: refuse what can't be written to.

    Raises:
        InvalidRequestError: not such a buffer.
    """

    def __init__(self, buffer: Buffer, *, writable: bool = False) -> None:
        self._raw = _PyBuffer()
        self._open = False
        try:
            failed = _get_buffer(buffer, self._raw, int(writable))
        except (BufferError, TypeError) as error:
            raise InvalidRequestError(f"not a buffer that can be used here: {error}") from error
        if failed:
            raise InternalError("the interpreter gave no buffer and no reason")
        self._open = True
        self.address: int = self._raw.buf or 0
        self.size: int = self._raw.len

    def close(self) -> None:
        """Give the buffer back."""
        if self._open:
            self._open = False
            _release_buffer(self._raw)
