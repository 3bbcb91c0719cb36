"""What keeps a process from being handed memory, each done to the process that calls it."""

from __future__ import annotations

import ctypes
import os
import resource
import struct
from typing import Final

# numbers of calls by machine: recvmsg, mmap
_CALLS: Final = {"x86_64": (47, 9), "aarch64": (212, 222)}
_ALLOW: Final = 0x7FFF0000
_FAIL: Final = 0x00050001  # EPERM
_LOAD, _EQUAL, _RETURN = 0x20, 0x15, 0x06
_FOURTH_ARGUMENT: Final = 16 + 3 * 8
_MAP_SHARED: Final = 1
_NO_NEW_PRIVILEGES, _SET_SECCOMP, _FILTER = 38, 22, 2


class _Program(ctypes.Structure):
    _fields_ = (("length", ctypes.c_ushort), ("filter", ctypes.c_char_p))


def no_messages_with_descriptors() -> None:
    """Have recvmsg refused, as in a sandbox that knows what it can carry."""
    receive, _ = _CALLS[os.uname().machine]
    _filter((_EQUAL, 0, 1, receive), (_RETURN, 0, 0, _FAIL))


def no_shared_maps() -> None:
    """Have every shared mapping refused."""
    _, mmap = _CALLS[os.uname().machine]
    _filter(
        (_EQUAL, 0, 3, mmap),
        (_LOAD, 0, 0, _FOURTH_ARGUMENT),
        (_EQUAL, 0, 1, _MAP_SHARED),
        (_RETURN, 0, 0, _FAIL),
    )


def no_descriptors_left() -> None:
    """Have no number free for a descriptor that somebody sends."""
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    descriptor = os.open("/dev/null", os.O_RDONLY)
    os.close(descriptor)
    resource.setrlimit(resource.RLIMIT_NOFILE, (descriptor, hard))


def _filter(*instructions: tuple[int, int, int, int]) -> None:
    program = b"".join(
        struct.pack("=HBBI", code, yes, no, value)
        for code, yes, no, value in [(_LOAD, 0, 0, 0), *instructions, (_RETURN, 0, 0, _ALLOW)]
    )
    described = _Program(len(program) // 8, program)
    call = ctypes.CDLL(None, use_errno=True).prctl
    for arguments in (
        (_NO_NEW_PRIVILEGES, 1, 0, 0, 0),
        (_SET_SECCOMP, _FILTER, ctypes.addressof(described), 0, 0),
    ):
        if call(*(ctypes.c_ulong(argument) for argument in arguments)):
            raise OSError(ctypes.get_errno(), "the kernel took no filter")
