"""Memory whose pages the kernel makes nobody touch before they are there: Linux's userfaultfd.

Whoever touches a missing page sleeps until it comes, or until nobody is to bring it any more: then
all that is missing is zeros. That holds for threads that run their own code. A system call that is
handed a missing page fails, and a thread that holds the interpreter lock keeps it while it sleeps;
so such memory is for native code that reads it and for nobody else.
"""

from __future__ import annotations

import ctypes
import errno
import fcntl
import os
import platform
import struct
from typing import Final

from sealcar.closing import Closing
from sealcar.transfer.memory import give_back

# numbers and structures of linux/userfaultfd.h; for user mode alone, no privilege is needed
_SYSCALL: Final = {"x86_64": 323, "aarch64": 282}
_USER_MODE_ONLY: Final = 1
_VERSION: Final = 0xAA
_HANDSHAKE: Final = 0xC018AA3F
_REGISTER: Final = 0xC020AA00
_UNREGISTER: Final = 0x8010AA01
_COPY: Final = 0xC028AA03
_MOVE: Final = 0xC028AA05  # from Linux 6.8 on
_CAN_MOVE: Final = 1 << 16
_MISSING: Final = 1
_WITH_HOLES: Final = 2
_TRIES: Final = 100
_libc = ctypes.CDLL(None, use_errno=True)
_libc.ioctl.argtypes = [ctypes.c_int, ctypes.c_ulong, ctypes.c_void_p]


class _Transfer(ctypes.Structure):
    """struct uffdio_copy, which struct uffdio_move equals; done is what came about, or an error."""

    _fields_ = (
        ("target", ctypes.c_uint64),
        ("source", ctypes.c_uint64),
        ("size", ctypes.c_uint64),
        ("mode", ctypes.c_uint64),
        ("done", ctypes.c_int64),
    )


class MissingPages(Closing):
    """The untouched pages of one private anonymous mapping, or of a part of it.

    Args:
        address: of the first page.
        size: of whole pages.

    Raises:
        OSError: the kernel can't do it, or doesn't let this process do it.
    """

    def __init__(self, address: int, size: int) -> None:
        number = _SYSCALL.get(platform.machine(), -1)
        self._pid, self._pages = os.getpid(), struct.pack("2Q", address, size)
        self._descriptor = _libc.syscall(number, os.O_CLOEXEC | os.O_NONBLOCK | _USER_MODE_ONLY)
        if self._descriptor < 0:
            raise OSError(ctypes.get_errno(), "no userfaultfd")
        try:
            self._ask(_HANDSHAKE, struct.pack("3Q", _VERSION, _CAN_MOVE, 0))
            self._ask(_REGISTER, self._pages + struct.pack("2Q", _MISSING, 0))
            # locked memory was there from the start: whoever read it would see zeros, and not wait
            give_back(address, size, surely=True)
        except BaseException:
            self.close()
            raise

    def fill(self, target: int, source: int, size: int) -> None:
        """Let pages be there, which whoever waits for them sees at once.

        Args:
            target: address of the first one, which is missing.
            source: address of private pages, which are gone from there afterwards.
            size: of whole pages.

        Raises:
            OSError: not all of them could be made.
        """
        at = 0
        for _ in range(_TRIES):
            done, reason = self._order(_MOVE, target + at, source + at, size - at)
            at += done
            if not reason:
                return
            if reason != errno.EAGAIN:
                break
        # pages can't be moved that a child of fork has, too, or the kernel is busy with
        _, reason = self._order(_COPY, target + at, source + at, size - at)
        if reason:
            raise OSError(reason, os.strerror(reason))
        give_back(source + at, size - at)

    def _order(self, order: int, target: int, source: int, size: int) -> tuple[int, int]:
        """Return how many bytes are there now, and an error number; 0: all are."""
        mode = _WITH_HOLES if order == _MOVE else 0
        transfer = _Transfer(target, source, size, mode, 0)
        failed = _libc.ioctl(self._descriptor, order, ctypes.byref(transfer))
        return max(0, transfer.done), ctypes.get_errno() if failed else 0

    def close(self) -> None:
        """Let all that is still missing be zeros; whoever waits goes on."""
        descriptor, self._descriptor = self._descriptor, -1
        if descriptor < 0:
            return
        try:
            # a child of fork may have the descriptor, too: closing it here alone wakes nobody
            if os.getpid() == self._pid:
                fcntl.ioctl(descriptor, _UNREGISTER, bytearray(self._pages))
        except OSError:
            pass  # nothing was registered
        finally:
            os.close(descriptor)

    def __del__(self) -> None:
        """Leave no descriptor behind; the mapping may be gone already, and its place another's."""
        if getattr(self, "_descriptor", -1) >= 0:
            os.close(self._descriptor)

    def _ask(self, order: int, question: bytes) -> None:
        fcntl.ioctl(self._descriptor, order, bytearray(question))
