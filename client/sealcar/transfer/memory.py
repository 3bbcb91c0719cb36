"""Moving bytes between addresses with the interpreter lock released.

Pieces are at most 1 MiB: one copy of hundreds of MiB into fresh memory takes more than twice as
long as many small ones, since each page is then zeroed and filled while it is in the cache.
"""

from __future__ import annotations

import ctypes
import mmap
import os
from typing import TYPE_CHECKING, Final

from sealcar.errors import ExhaustedError, WrongStateError
from sealcar.transfer.descriptors import Exported

if TYPE_CHECKING:
    from typing_extensions import Buffer

PIECE: Final = 1 << 20
_HUGE_FROM: Final = 4 << 20
_PAGE: Final = mmap.PAGESIZE
_POPULATE_READ: Final = 22  # the mmap module of Python 3.11 doesn't name it
_libc = ctypes.CDLL(None, use_errno=True)
_libc.madvise.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int]
_libc.mprotect.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int]
_libc.memmem.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_char_p, ctypes.c_size_t]
_libc.memmem.restype = ctypes.c_void_p
# CPython documents that a new bytes object made without a source may be filled by its maker
_new_bytes = ctypes.PYFUNCTYPE(ctypes.py_object, ctypes.c_void_p, ctypes.c_ssize_t)(
    ("PyBytes_FromStringAndSize", ctypes.pythonapi)
)


def new_bytes(size: int) -> bytes:
    """Return a `bytes` object that its maker may fill before anybody else has a reference.

    Raises:
        ExhaustedError: the system gives no more memory.
    """
    try:
        made: bytes = _new_bytes(None, size)
    except (MemoryError, OverflowError) as error:
        raise ExhaustedError(f"no memory for {size} bytes") from error
    return made


def copy(target: int, source: int, size: int) -> None:
    """Copy between addresses whose owners the caller keeps alive."""
    for at in range(0, size, PIECE):
        ctypes.memmove(target + at, source + at, min(PIECE, size - at))


def wipe(address: int, size: int) -> None:
    """Overwrite with zeros."""
    for at in range(0, size, PIECE):
        ctypes.memset(address + at, 0, min(PIECE, size - at))


def write(descriptor: int, offset: int, address: int, size: int) -> None:
    """Write to a file in memory what lies at an address, whose owner the caller keeps alive.

    Raises:
        ExhaustedError: the system has no memory left.
    """
    for at in range(0, size, PIECE):
        length = min(PIECE, size - at)
        piece = memoryview((ctypes.c_char * length).from_address(address + at)).cast("B")
        done = 0
        while done < length:
            try:
                done += os.pwrite(descriptor, piece[done:], offset + at + done)
            except OSError as error:
                raise ExhaustedError(f"no memory for a payload: {error.strerror}") from error


def contains(data: Buffer, words: bytes) -> bool:
    """Tell whether a large object holds some bytes.

    The C library takes a third of the time that `in` takes, and no interpreter lock.
    """
    with Exported(data) as whole:
        return bool(_libc.memmem(whole.address, whole.size, words, len(words)))


def advise_huge(address: int, size: int) -> None:
    """Ask for huge pages inside a large destination; to be called before its first byte.

    Only whole pages inside are touched. A refusal costs speed and nothing else.
    """
    if size >= _HUGE_FROM:
        first = -(-address // _PAGE) * _PAGE
        _libc.madvise(first, (address + size) // _PAGE * _PAGE - first, mmap.MADV_HUGEPAGE)


def keep_out_of_dumps(address: int, size: int) -> None:
    """Have whole pages left out when the process dumps core."""
    _libc.madvise(address, size, mmap.MADV_DONTDUMP)


def populate(address: int, size: int) -> bool:
    """Have pages that are to be read in this process's tables; False: Linux 5.14 first can."""
    return not _libc.madvise(address, size, _POPULATE_READ)


def give_back(address: int, size: int, *, surely: bool = False) -> None:
    """Give the system the whole pages of private memory that nobody reads any more.

    Raises:
        OSError: with `surely`: they stay, as locked ones do.
    """
    first = -(-address // _PAGE) * _PAGE
    last = (address + size) // _PAGE * _PAGE
    if last > first and _libc.madvise(first, last - first, mmap.MADV_DONTNEED) and surely:
        raise OSError(ctypes.get_errno(), "the pages are locked")


def protect(address: int, size: int) -> None:
    """Let no pointer write to whole pages any more, neither in Python nor in C."""
    _libc.mprotect(address, size, mmap.PROT_READ)


class PrivateMemory:
    """Anonymous memory of this process: on huge pages where large, never in a core dump.

    Raises:
        ExhaustedError: the system gives no more memory.
    """

    def __init__(self, size: int) -> None:
        self.size = size
        self._room = max(_PAGE, -(-size // _PAGE) * _PAGE)
        try:
            self._map = mmap.mmap(-1, self._room, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
        except (OSError, ValueError, OverflowError) as error:
            raise ExhaustedError(f"no memory for {size} bytes: {error}") from error
        self._map.madvise(mmap.MADV_DONTDUMP)
        with Exported(self._map) as whole:
            self.address = whole.address
        advise_huge(self.address, self._room)

    def view(self) -> memoryview:
        """Return a read-only view; the memory can't be closed while it or a part of it lives."""
        return memoryview(self._map)[: self.size].toreadonly()

    def freeze(self) -> None:
        """Let no pointer write to it any more, neither in Python nor in C."""
        protect(self.address, self._room)

    def close(self) -> None:
        """Give the memory back.

        Raises:
            WrongStateError: somebody still holds a view.
        """
        try:
            self._map.close()
        except BufferError:
            raise WrongStateError(
                "a mapped payload can't be closed while views of it live"
            ) from None
