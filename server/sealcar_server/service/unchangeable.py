"""Memory with bytes in it that nobody can change any more, for other processes to read."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Final

from sealcar.errors import ExhaustedError
from sealcar.transfer.descriptors import FIXED_SIZE, Seal, memory, read_only, seal

if TYPE_CHECKING:
    from collections.abc import Callable

_UNCHANGEABLE: Final = FIXED_SIZE | Seal.WRITE | Seal.SEAL


def of(name: str, data: bytes) -> int:
    """Return a descriptor of these bytes; raises as `filled`."""
    return filled(name, len(data), lambda descriptor: put(descriptor, memoryview(data), 0))


def filled(name: str, size: int, fill: Callable[[int], None]) -> int:
    """Return a descriptor, for reading only, of so many bytes.

    Args:
        name: for whoever looks at the process.
        size: bytes.
        fill: writes them to a descriptor.

    Raises:
        ExhaustedError: there is no memory.
    """
    try:
        descriptor = memory(name, size)
        try:
            fill(descriptor)
            seal(descriptor, _UNCHANGEABLE)
            return read_only(descriptor)
        finally:
            os.close(descriptor)
    except OSError as error:
        raise ExhaustedError(f"no memory to look at the model: {error.strerror}") from error


def put(descriptor: int, data: memoryview, at: int) -> None:
    """Write all of it at an offset; OSError as pwrite does."""
    done = 0
    while done < len(data):
        done += os.pwrite(descriptor, data[done:], at + done)
