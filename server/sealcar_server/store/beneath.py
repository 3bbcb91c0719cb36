"""Opening a file some directories down in one call, with no link followed on the way.

The kernel's openat2, which Python has no function for. Steps that were opened one by one would cost
a reader of something small more than decrypting it.
"""

from __future__ import annotations

import ctypes
import os
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Sequence

_OPENAT2: Final = 437  # on every architecture
_NO_LINKS_AND_BENEATH: Final = 0x04 | 0x08  # RESOLVE_NO_SYMLINKS (magic ones too), RESOLVE_BENEATH
_syscall: Final = ctypes.CDLL(None, use_errno=True).syscall
_syscall.restype = ctypes.c_long


class _How(ctypes.Structure):
    """The kernel's open_how."""

    _fields_ = (
        ("flags", ctypes.c_uint64),
        ("mode", ctypes.c_uint64),
        ("resolve", ctypes.c_uint64),
    )


def open_beneath(directory: int, names: Sequence[str], flags: int) -> int | None:
    """Return a descriptor of what lies below a directory; None if that can't be had in one call.

    Why it can't, whoever goes step by step finds out: there is a link or nothing on the way, or
    the kernel is older than Linux 5.6.

    Args:
        directory: descriptor of a directory.
        names: each one step down, checked.
        flags: as of open; nothing is created.
    """
    how = _How(flags, 0, _NO_LINKS_AND_BENEATH)
    path = os.fsencode("/".join(names))
    descriptor: int = _syscall(
        ctypes.c_long(_OPENAT2),
        ctypes.c_long(directory),
        ctypes.c_char_p(path),
        ctypes.byref(how),
        ctypes.c_size_t(ctypes.sizeof(how)),
    )
    return descriptor if descriptor >= 0 else None
