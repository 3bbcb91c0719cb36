"""What a process gives up before it reads a hostile model, by its own hand.

Whoever takes it over afterwards holds the model and can answer: no file, no process, no descriptor,
no network, no more memory and time than was meant for it.
"""

from __future__ import annotations

import ctypes
import os
import resource
import signal
import struct
from typing import Final, NamedTuple

_PR_SET_PDEATHSIG: Final = 1
_PR_SET_DUMPABLE: Final = 4
_PR_SET_SECCOMP: Final = 22
_PR_SET_NO_NEW_PRIVS: Final = 38
_FILTER: Final = 2

_LOAD: Final = 0x20
_EQUAL: Final = 0x15
_ANY_BIT: Final = 0x45
_RETURN: Final = 0x06
_ALLOW: Final = 0x7FFF0000
_KILL: Final = 0x80000000
_NUMBER: Final = 0
_ARCHITECTURE: Final = 4
_THIRD_ARGUMENT: Final = 32
_PROT_EXEC: Final = 4


class _Machine(NamedTuple):
    """An architecture as the kernel's filters name it.

    `plain` may be called with anything: write, munmap, mremap, madvise, brk, futex, rt_sigreturn,
    exit, exit_group. `mapping` only without PROT_EXEC: mmap, mprotect.
    """

    audit: int
    plain: tuple[int, ...]
    mapping: tuple[int, ...]


_MACHINES: Final = {
    "x86_64": _Machine(0xC000003E, (1, 11, 25, 28, 12, 202, 15, 60, 231), (9, 10)),
    "aarch64": _Machine(0xC00000B7, (64, 215, 216, 233, 214, 98, 139, 93, 94), (222, 226)),
}


class _Program(ctypes.Structure):
    """The kernel's sock_fprog."""

    _fields_ = (("length", ctypes.c_ushort), ("filter", ctypes.c_char_p))


def begin(seconds: int) -> None:
    """Give up what isn't needed to learn what the work is.

    Args:
        seconds: of computing, after which the kernel ends this process.

    Raises:
        OSError: the kernel refused.
    """
    _prctl(_PR_SET_NO_NEW_PRIVS, 1)
    _prctl(_PR_SET_DUMPABLE, 0)
    # a daemon that was killed leaves nothing behind
    _prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    os.umask(0o777)
    for limit, value in (
        (resource.RLIMIT_CORE, 0),
        (resource.RLIMIT_FSIZE, 0),
        (resource.RLIMIT_NPROC, 0),
        (resource.RLIMIT_MEMLOCK, 0),
        (resource.RLIMIT_MSGQUEUE, 0),
        (resource.RLIMIT_CPU, seconds),
    ):
        resource.setrlimit(limit, (value, value))


def complete(memory: int) -> bool:
    """Give up all but computing and writing to what is open; tell whether calls are filtered too.

    Nothing may be imported afterwards.

    Args:
        memory: bytes of address space, those in use included.

    Raises:
        OSError: the kernel refused.
    """
    resource.setrlimit(resource.RLIMIT_AS, (memory, memory))
    resource.setrlimit(resource.RLIMIT_NOFILE, (0, 0))
    machine = _MACHINES.get(os.uname().machine)
    if machine is None:
        return False
    program = b"".join(_instructions(machine))
    described = _Program(len(program) // len(_instruction(0, 0)), program)
    try:
        _prctl(_PR_SET_SECCOMP, _FILTER, ctypes.addressof(described))
    except OSError:
        # a kernel without filters: what is above holds without them
        return False
    return True


def _instructions(machine: _Machine) -> list[bytes]:
    # a call's number means nothing without the architecture, and one process can use two
    program = [
        _instruction(_LOAD, _ARCHITECTURE),
        _instruction(_EQUAL, machine.audit, yes=1),
        _instruction(_RETURN, _KILL),
        _instruction(_LOAD, _NUMBER),
    ]
    for number in machine.plain:
        program += [_instruction(_EQUAL, number, no=1), _instruction(_RETURN, _ALLOW)]
    for number in machine.mapping:
        program += [
            _instruction(_EQUAL, number, no=4),
            _instruction(_LOAD, _THIRD_ARGUMENT),
            _instruction(_ANY_BIT, _PROT_EXEC, yes=1),
            _instruction(_RETURN, _ALLOW),
            _instruction(_RETURN, _KILL),
        ]
    return [*program, _instruction(_RETURN, _KILL)]


def _instruction(code: int, value: int, *, yes: int = 0, no: int = 0) -> bytes:
    return struct.pack("=HBBI", code, yes, no, value)


def _prctl(option: int, *arguments: int) -> None:
    call = ctypes.CDLL(None, use_errno=True).prctl
    call.argtypes = (ctypes.c_int, *[ctypes.c_ulong] * 4)
    rest = (*arguments, 0, 0, 0, 0)[:4]
    if call(option, *rest) != 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))
