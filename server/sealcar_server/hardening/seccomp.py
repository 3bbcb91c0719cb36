"""A filter of system calls: what the daemon never needs fails, for all its threads and children."""

from __future__ import annotations

import ctypes
import errno
import os
import socket
import struct
from typing import Final, NamedTuple

from sealcar_server.hardening import kernel
from sealcar_server.hardening.calls import DENIED

_SET_FILTER: Final = 1
_ALL_THREADS: Final = 1

_LOAD: Final = 0x20
_EQUAL: Final = 0x15
_AT_LEAST: Final = 0x35
_ANY_BIT: Final = 0x45
_RETURN: Final = 0x06
_ALLOW: Final = 0x7FFF0000
_KILL: Final = 0x80000000
_FAIL: Final = 0x00050000  # with an error number in the lower half
_NUMBER: Final = 0
_ARCHITECTURE: Final = 4
_FIRST_ARGUMENT: Final = 16
_SECOND_ARGUMENT: Final = 24

_X32: Final = 0x40000000  # the third way to call an x86 kernel, with numbers of its own
NEW_NAMESPACES: Final = 0x7E020000
_PR_SET_DUMPABLE: Final = 4
FAMILIES: Final = (socket.AF_UNIX, socket.AF_INET, socket.AF_INET6, socket.AF_NETLINK)


class _Machine(NamedTuple):
    """An architecture as the kernel's filters name it, with the calls that are looked into."""

    column: int
    audit: int
    seccomp: int
    clone: int
    clone3: int
    prctl: int
    socket: int


_MACHINES: Final = {
    "x86_64": _Machine(0, 0xC000003E, 317, 56, 435, 157, 41),
    "aarch64": _Machine(1, 0xC00000B7, 277, 220, 435, 167, 198),
}


class _Program(ctypes.Structure):
    """The kernel's sock_fprog."""

    _fields_ = (("length", ctypes.c_ushort), ("filter", ctypes.c_char_p))


def deny() -> None:
    """Filter the calls of every thread of this process.

    Raises:
        OSError: the kernel refused, or the architecture isn't known.
    """
    name = os.uname().machine
    machine = _MACHINES.get(name)
    if machine is None:
        raise OSError(errno.ENOSYS, f"calls of {name} aren't known")
    program = b"".join(_instructions(machine))
    described = _Program(len(program) // len(_instruction(0, 0)), program)
    place = ctypes.addressof(described)
    failed = kernel.system_call(machine.seccomp, _SET_FILTER, _ALL_THREADS, place)
    if failed:
        raise OSError(errno.EBUSY, f"thread {failed} has a filter of its own")


def _instructions(machine: _Machine) -> list[bytes]:
    # a call's number means nothing without the architecture, and one process can use two
    program = [
        _instruction(_LOAD, _ARCHITECTURE),
        _instruction(_EQUAL, machine.audit, yes=1),
        _instruction(_RETURN, _KILL),
        _instruction(_LOAD, _NUMBER),
        _instruction(_AT_LEAST, _X32, no=1),
        _fail(errno.EPERM),
    ]
    for numbers in DENIED.values():
        number = numbers[machine.column]
        if number is not None:
            program += _if(number, [_fail(errno.EPERM)])
    # its flags can't be seen here; whoever is told that there is none takes clone
    program += _if(machine.clone3, [_fail(errno.ENOSYS)])
    program += _if(machine.clone, _clone())
    program += _if(machine.prctl, _prctl())
    program += _if(machine.socket, _socket())
    return [*program, _instruction(_RETURN, _ALLOW)]


def _clone() -> list[bytes]:
    return [
        _instruction(_LOAD, _FIRST_ARGUMENT),
        _instruction(_ANY_BIT, NEW_NAMESPACES, no=1),
        _fail(errno.EPERM),
        _instruction(_RETURN, _ALLOW),
    ]


def _prctl() -> list[bytes]:
    """Nobody makes the daemon dumpable again."""
    return [
        _instruction(_LOAD, _FIRST_ARGUMENT),
        _instruction(_EQUAL, _PR_SET_DUMPABLE, no=3),
        _instruction(_LOAD, _SECOND_ARGUMENT),
        _instruction(_EQUAL, 0, yes=1),
        _fail(errno.EPERM),
        _instruction(_RETURN, _ALLOW),
    ]


def _socket() -> list[bytes]:
    known = []
    for family in FAMILIES:
        known += _if(family, [_instruction(_RETURN, _ALLOW)])
    return [_instruction(_LOAD, _FIRST_ARGUMENT), *known, _fail(errno.EAFNOSUPPORT)]


def _if(number: int, then: list[bytes]) -> list[bytes]:
    return [_instruction(_EQUAL, number, no=len(then)), *then]


def _fail(reason: int) -> bytes:
    return _instruction(_RETURN, _FAIL | reason)


def _instruction(code: int, value: int, *, yes: int = 0, no: int = 0) -> bytes:
    return struct.pack("=HBBI", code, yes, no, value)
