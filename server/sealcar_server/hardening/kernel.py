"""System calls that Python has no function for."""

from __future__ import annotations

import ctypes
import os
from typing import Final

_LIBC: Final = ctypes.CDLL(None, use_errno=True)


def prctl(option: int, *arguments: int) -> int:
    """Make the call, and return its result.

    Raises:
        OSError: the kernel refused.
    """
    call = _LIBC.prctl
    call.argtypes = (ctypes.c_int, *[ctypes.c_ulong] * 4)
    return _checked(call(option, *(*arguments, 0, 0, 0, 0)[:4]))


def system_call(number: int, *arguments: int) -> int:
    """Make a call that has no name in the C library; addresses are numbers too.

    Raises:
        OSError: the kernel refused.
    """
    _LIBC.syscall.restype = ctypes.c_long
    return _checked(_LIBC.syscall(ctypes.c_long(number), *map(ctypes.c_ulong, arguments)))


def capset(header: bytes, data: bytes) -> None:
    """Set the capabilities of this thread.

    Raises:
        OSError: the kernel refused.
    """
    _checked(_LIBC.capset(header, data))


def _checked(result: int) -> int:
    if result < 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))
    return result
