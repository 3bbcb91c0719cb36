"""The functions that Python's own bindings call: each copies, as the bindings lend no address."""

from __future__ import annotations

import ctypes
import mmap
import weakref
from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING, Final, Self

from sealcar.errors import ExhaustedError, RuntimeSupportError, WrongStateError
from sealcar.names import shown
from sealcar.ort import runtime
from sealcar.ort.adapters.views import view
from sealcar.ort.callbacks import Registration, blob, status_text

if TYPE_CHECKING:
    from collections.abc import Iterator

    from sealcar.ort.runtime import Untyped

PIECE: Final = 1 << 20
_STRINGS: Final = 8  # the element type whose bytes aren't in the tensor


class _CallbackError(Exception):
    """What the bindings turn into a status; its text holds no secret."""


@contextmanager
def _reporting(registration: Registration, what: str) -> Iterator[None]:
    """Replace whatever is raised by an exception whose text may be logged."""
    try:
        yield
    except BaseException as error:  # noqa: BLE001  (the runtime must get an answer to each)
        registration.failed(error)
        raise _CallbackError(status_text(error, what)) from None


class Reader:
    """Fills a buffer of ours, then the runtime's, which has no address."""

    def __init__(self, registration: Registration) -> None:
        self._registration = weakref.ref(registration)

    def __call__(self, name: str, out: Untyped) -> None:
        """Bring one blob."""
        registration = self._registration()
        if registration is None or not registration.live:
            raise _CallbackError("the callback's registration has ended")
        with _reporting(registration, blob(name)), _Buffer() as buffer:
            if registration.read is None:
                raise RuntimeSupportError("this session reads no blobs")
            registration.read(name, partial(buffer.allocate, registration.limit))
            data = buffer.filled()
            out.allocate(len(data))
            for at in range(0, len(data), PIECE):
                out.write(data[at : at + PIECE], at)


class Writer:
    """Copies a blob, which the bindings show only in pieces, and passes the copy on."""

    def __init__(self, registration: Registration) -> None:
        self._registration = registration

    def __call__(self, name: str, data: Untyped) -> None:
        """Pass one blob on."""
        write = self._registration.write
        self._registration.written = True
        with _reporting(self._registration, blob(name)), _Buffer() as buffer:
            if write is None:
                raise RuntimeSupportError("this compilation takes no blobs")
            address = buffer.allocate(data.size, data.size)
            copy = buffer.filled()
            for at in range(0, data.size, PIECE):
                size = min(PIECE, data.size - at)
                copy[at : at + size] = data.read(at, size)
            write(name, address, data.size)


class Sink:
    """Passes the compiled model on, piece by piece."""

    def __init__(self, registration: Registration) -> None:
        self._registration = registration

    def __call__(self, data: bytes) -> None:
        """Pass the next piece on."""
        with _reporting(self._registration, "the compiled model"):
            array, size = view(data)
            if self._registration.model is not None:
                self._registration.model(array.ctypes.data, size)


class Placer:
    """Asks where an initializer goes, in the runtime's own terms."""

    def __init__(self, registration: Registration) -> None:
        self._registration = registration

    def __call__(self, name: str, value: Untyped, external: Untyped) -> Untyped:
        """Return the place of one initializer, or None."""
        del external  # a source that lies in memory has none
        location = self._registration.location
        with _reporting(self._registration, f"initializer {shown(name)}"):
            if location is None or value.element_type() == _STRINGS:
                return None
            place = location(name, value.data_ptr(), value.tensor_size_in_bytes())
            if place is None:
                return None
            made = runtime.onnxruntime().OrtExternalInitializerInfo
            return made(place.path, place.offset, place.size)


class _Buffer:
    """One piece of memory of ours, left out of core dumps and wiped at the end."""

    def __init__(self) -> None:
        self._memory: mmap.mmap | None = None
        self._address = 0

    def allocate(self, limit: int, size: int) -> int:
        """Return the address of `size` bytes."""
        if self._memory is not None:
            raise WrongStateError("memory is given once")
        if not 0 < size <= limit:
            raise ExhaustedError(f"a blob has {size} bytes; from 1 to {limit} are allowed")
        try:
            self._memory = mmap.mmap(-1, size, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
        except OSError as error:
            raise ExhaustedError(f"no memory for a blob of {size} bytes") from error
        self._memory.madvise(mmap.MADV_DONTDUMP)
        array, _ = view(self._memory)
        self._address = int(array.ctypes.data)
        return self._address

    def filled(self) -> memoryview:
        """Return the memory that was asked for."""
        if self._memory is None:
            raise WrongStateError("the read function asked for no memory")
        return memoryview(self._memory)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if self._memory is not None:
            ctypes.memset(self._address, 0, len(self._memory))
