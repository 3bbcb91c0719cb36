"""Landlock: a process says what it may reach from now on, and the kernel holds it to that.

docs.kernel.org/userspace-api/landlock.html. Rules are about directories and all below them, by
what they are and not by name: what is put there later counts, what replaces them doesn't.
"""

from __future__ import annotations

import ctypes
import enum
import os
import stat
import struct
from typing import TYPE_CHECKING, Final, Self

from sealcar_server.hardening import kernel

if TYPE_CHECKING:
    from pathlib import Path
    from types import TracebackType

# the same on every architecture
_CREATE: Final = 444
_ADD_RULE: Final = 445
_RESTRICT: Final = 446
_ASK_VERSION: Final = 1
_PATH_BENEATH: Final = 1
_NET_PORT: Final = 2
OLDEST: Final = 2  # before it, no file can be linked or moved to another directory
NET: Final = 4
_SCOPES: Final = 6
_BOTH_SCOPES: Final = 0b11  # abstract Unix sockets of others, signals to others


class Right(enum.IntFlag):
    """Rights on files, as the kernel numbers them."""

    EXECUTE = 1 << 0
    WRITE_FILE = 1 << 1
    READ_FILE = 1 << 2
    READ_DIR = 1 << 3
    REMOVE_DIR = 1 << 4
    REMOVE_FILE = 1 << 5
    MAKE_CHAR = 1 << 6
    MAKE_DIR = 1 << 7
    MAKE_REG = 1 << 8
    MAKE_SOCK = 1 << 9
    MAKE_FIFO = 1 << 10
    MAKE_BLOCK = 1 << 11
    MAKE_SYM = 1 << 12
    REFER = 1 << 13
    TRUNCATE = 1 << 14
    IOCTL_DEV = 1 << 15


READ: Final = Right.READ_FILE | Right.READ_DIR
RUN: Final = READ | Right.EXECUTE
WRITE: Final = Right.READ_FILE | Right.WRITE_FILE | Right.TRUNCATE
CHANGE: Final = (
    READ
    | WRITE
    | Right.REMOVE_DIR
    | Right.REMOVE_FILE
    | Right.MAKE_DIR
    | Right.MAKE_REG
    | Right.MAKE_SOCK
    | Right.REFER
)
_OF_FILES: Final = Right.EXECUTE | WRITE | Right.IOCTL_DEV
_SINCE: Final = {3: Right.TRUNCATE, 5: Right.IOCTL_DEV}


class Port(enum.IntFlag):
    """Rights on TCP ports."""

    BIND = 1 << 0
    CONNECT = 1 << 1


def version() -> int:
    """Return which version of Landlock the kernel has.

    Raises:
        OSError: none, or it was switched off.
    """
    return kernel.system_call(_CREATE, 0, 0, _ASK_VERSION)


class Ruleset:
    """What will be reachable; nothing is, until a rule says so. Use as a context manager.

    Args:
        version: of Landlock.
        ports: what of TCP is restricted at all, from version 4 on.

    Raises:
        OSError: the kernel refused.
    """

    def __init__(self, version: int, ports: Port) -> None:
        self._rights = Right(0)
        for right in Right:
            if version >= next((since for since, new in _SINCE.items() if right in new), 0):
                self._rights |= right
        self._ports = ports if version >= NET else Port(0)
        scopes = _BOTH_SCOPES if version >= _SCOPES else 0
        described = struct.pack("=QQQ", self._rights, self._ports, scopes)
        buffer = ctypes.create_string_buffer(described, len(described))
        self._fd = kernel.system_call(_CREATE, ctypes.addressof(buffer), len(described), 0)

    def allow(self, path: Path, rights: Right) -> None:
        """Add a directory with all below it, or a file; what isn't there is left out.

        Raises:
            OSError: the kernel refused.
        """
        try:
            fd = os.open(path, os.O_PATH | os.O_CLOEXEC)
        except OSError:
            return
        try:
            if not stat.S_ISDIR(os.fstat(fd).st_mode):
                rights &= _OF_FILES
            self._add(_PATH_BENEATH, struct.pack("=Qi", rights & self._rights, fd))
        finally:
            os.close(fd)

    def allow_port(self, port: int, right: Port) -> None:
        """Add a TCP port; 0 is any that is free, for binding.

        Raises:
            OSError: the kernel refused.
        """
        if right & self._ports:
            self._add(_NET_PORT, struct.pack("=QQ", right, port))

    def restrict(self) -> None:
        """Hold this thread, and what it starts, to the rules.

        Raises:
            OSError: the kernel refused.
        """
        kernel.system_call(_RESTRICT, self._fd, 0)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        os.close(self._fd)

    def _add(self, kind: int, rule: bytes) -> None:
        buffer = ctypes.create_string_buffer(rule, len(rule))
        kernel.system_call(_ADD_RULE, self._fd, kind, ctypes.addressof(buffer), 0)
