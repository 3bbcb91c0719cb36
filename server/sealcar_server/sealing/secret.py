"""Memory for root keys: locked if the limit allows, wiped when closed, shown by nothing."""

from __future__ import annotations

import ctypes
from contextlib import suppress
from typing import Self

from sealcar.closing import Closing
from sealcar.errors import ExhaustedError
from sealcar_server.sealing import memory


class SecretBuffer(Closing):
    """A secret of a fixed size in memory of its own.

    Whoever holds one closes it; what is left behind is wiped when it is collected.

    Args:
        size: in bytes; the content is zeros.
    """

    __slots__ = ("_address", "_memory", "_size", "view")

    view: memoryview

    def __init__(self, size: int) -> None:
        self._memory = memory.private(max(size, 1))
        self._size = size
        self._address = memory.address(self._memory)
        # a low RLIMIT_MEMLOCK is the operator's choice, not a reason to fail
        memory.LIBC.mlock(ctypes.c_void_p(self._address), ctypes.c_size_t(size))
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
        if not self._memory.closed:
            memory.zero(self._address, self._size)

    def close(self) -> None:
        """Wipe, and give the memory back. Repeating it is fine."""
        self.wipe()
        # somebody's slice keeps the (wiped) memory alive until it goes
        with suppress(BufferError):
            self.view.release()
            self._memory.close()

    def __len__(self) -> int:
        return self._size

    def __repr__(self) -> str:
        return f"<SecretBuffer of {self._size} bytes>"

    def __del__(self) -> None:
        if hasattr(self, "view"):
            self.close()
