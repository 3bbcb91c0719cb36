"""Memory for root keys: locked if the limit allows, wiped when closed, shown by nothing."""

from __future__ import annotations

import ctypes
import threading
from contextlib import suppress
from typing import TYPE_CHECKING, Final, Self

from sealcar.closing import Closing
from sealcar.errors import ExhaustedError
from sealcar_server.sealing import memory

if TYPE_CHECKING:
    import mmap

_USUAL: Final = 32
# wiped memory of closed buffers, still locked: each read needs one for a moment
_spare: Final[list[mmap.mmap]] = []
_SPARE: Final = 16


class SecretBuffer(Closing):
    """A secret of a fixed size in memory of its own.

    Whoever holds one closes it; what is left behind is wiped when it is collected.

    Args:
        size: in bytes; the content is zeros.
    """

    __slots__ = ("_address", "_closed", "_lock", "_memory", "_size", "view")

    view: memoryview

    def __init__(self, size: int) -> None:
        self._size = size
        self._memory = _locked(size)
        self._address = memory.address(self._memory)
        # closed memory may be the next secret's: whoever comes late must not touch it
        self._lock = threading.Lock()
        self._closed = False
        self.view = memoryview(self._memory)[:size]

    @classmethod
    def copy_of(cls, secret: bytes | bytearray | memoryview) -> Self:
        """Return a new buffer with these bytes; wiping the source is the caller's."""
        made = cls(len(secret))
        made.view[:] = secret
        return made

    @classmethod
    def random(cls, size: int) -> Self:
        """Return a new buffer that the kernel filled, without a copy of it anywhere else.

        Raises:
            ExhaustedError: the kernel gave no random bytes.
        """
        made = cls(size)
        target = ctypes.c_void_p(made._address)
        if memory.LIBC.getrandom(target, ctypes.c_size_t(size), 0) != size:
            raise ExhaustedError("the kernel's random generator gave no bytes")
        return made

    def copy(self) -> SecretBuffer:
        """Return a buffer of its own with the same content."""
        return SecretBuffer.copy_of(self.view)

    def wipe(self) -> None:
        """Overwrite the content with zeros."""
        with self._lock:
            self._zero()

    def close(self) -> None:
        """Wipe, and give the memory back. Repeating it is fine."""
        # somebody's slice keeps the (wiped) memory alive until it goes
        with self._lock, suppress(BufferError):
            self._zero()
            self.view.release()
            self._give_back()

    def _zero(self) -> None:
        if not self._closed:
            memory.zero(self._address, self._size)

    def _give_back(self) -> None:
        if self._closed:
            return
        if self._size == _USUAL and len(_spare) < _SPARE:
            # refused as closing is while a slice of it lives, which would see the next secret
            self._memory.resize(_USUAL)
            _spare.append(self._memory)
        else:
            self._memory.close()
        self._closed = True

    def __len__(self) -> int:
        return self._size

    def __repr__(self) -> str:
        return f"<SecretBuffer of {self._size} bytes>"

    def __del__(self) -> None:
        if hasattr(self, "view") and not self._closed:
            self.close()


def _locked(size: int) -> mmap.mmap:
    if size == _USUAL:
        with suppress(IndexError):
            return _spare.pop()
    made = memory.private(max(size, 1))
    # a low RLIMIT_MEMLOCK is the operator's choice, not a reason to fail
    memory.LIBC.mlock(ctypes.c_void_p(memory.address(made)), ctypes.c_size_t(size))
    return made
