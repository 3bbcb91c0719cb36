"""Callbacks through Python's own bindings of 1.31 and later, where the native part isn't built.

They lend no address, so each blob is copied once more; and before 1.32 the blobs' names can't be
chosen. It still fails closed: this runtime rejects a provider that doesn't declare support.
"""

from __future__ import annotations

import ctypes
import mmap
import warnings
import weakref
from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING, Final, Self

from sealcar.errors import ExhaustedError, RuntimeSupportError, WrongStateError
from sealcar.ort import runtime
from sealcar.ort.adapters import compiling
from sealcar.ort.callbacks import (
    Compilation,
    ReadFunction,
    Registration,
    blob,
    keep,
    status_text,
)

if TYPE_CHECKING:
    from collections.abc import Iterator

    from sealcar.ort.runtime import SessionOptions, Untyped

PIECE: Final = 1 << 20
_NAMED_FROM: Final = (1, 32)
_STRINGS: Final = 8  # the element type whose bytes aren't in the tensor


class LesserCallbacksWarning(UserWarning):
    """The native part isn't built; what that costs is in the text."""


class BindingsRegistrar:
    """A `Registrar` over the runtime's Python bindings."""

    def __init__(self) -> None:
        lost = "each blob is copied once more, and a published plugin can't be wrapped"
        if runtime.version() < _NAMED_FROM:
            lost += "; blobs have the provider's own names"
        warnings.warn(
            f"sealcar was built without its native part: {lost}",
            LesserCallbacksWarning,
            stacklevel=3,
        )

    def set_read(
        self, options: SessionOptions, read: ReadFunction, *, limit: int | None = None
    ) -> Registration:
        """Register a function that fills a buffer of ours and copies it into the runtime's."""
        registration = Registration(read=read, limit=limit)
        keep(options, registration)
        options.set_ep_context_data_read_func(_Reader(registration), registration.limit)
        return registration

    def clear_read(self, options: SessionOptions) -> None:
        """Clear it with the bindings' own function."""
        options.clear_ep_context_data_read_func()

    def compile(self, options: SessionOptions, compilation: Compilation) -> None:
        """Compile with the bindings' compiler.

        External files of the source are lent to the caller's own options, which keep them.
        """
        compiling.check(compilation)
        ort = runtime.onnxruntime()
        registration = compiling.registration_of(compilation)
        _lend(options, compilation)
        level, _ = compiling.OPTIMIZATIONS[compilation.optimization]
        with compiling.explained(registration):
            compiler = ort.ModelCompiler(
                options,
                bytes(compilation.model),
                embed_compiled_data_into_model=compilation.embed,
                flags=ort.OrtCompileApiFlags.ERROR_IF_NO_NODES_COMPILED,
                graph_optimization_level=getattr(ort.GraphOptimizationLevel, level),
                get_initializer_location_func=_Placer(registration)
                if compilation.location
                else None,
            )
            if not compilation.embed:
                compiler.set_ep_context_data_write_func(_Writer(registration))
            if runtime.version() >= _NAMED_FROM:
                name = f"{compilation.stem}.onnx"
                compiler.set_ep_context_binary_information(compiling.NOWHERE, name)
            compiler.compile_to_stream(_Sink(registration))


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


class _Reader:
    """Fills a buffer of ours, then the runtime's, which has no address."""

    def __init__(self, registration: Registration) -> None:
        self._registration = weakref.ref(registration)

    def __call__(self, name: str, out: Untyped) -> None:
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


class _Writer:
    """Copies a blob, which the bindings show only in pieces, and passes the copy on."""

    def __init__(self, registration: Registration) -> None:
        self._registration = registration

    def __call__(self, name: str, data: Untyped) -> None:
        write = self._registration.write
        with _reporting(self._registration, blob(name)), _Buffer() as buffer:
            if write is None:
                raise RuntimeSupportError("this compilation takes no blobs")
            address = buffer.allocate(data.size, data.size)
            copy = buffer.filled()
            for at in range(0, data.size, PIECE):
                size = min(PIECE, data.size - at)
                copy[at : at + size] = data.read(at, size)
            write(name, address, data.size)


class _Sink:
    def __init__(self, registration: Registration) -> None:
        self._registration = registration

    def __call__(self, data: bytes) -> None:
        with _reporting(self._registration, "the compiled model"):
            array, size = compiling.view(data)
            if self._registration.model is not None:
                self._registration.model(array.ctypes.data, size)


class _Placer:
    def __init__(self, registration: Registration) -> None:
        self._registration = registration

    def __call__(self, name: str, value: Untyped, external: Untyped) -> Untyped:
        del external  # a source that lies in memory has none
        location = self._registration.location
        with _reporting(self._registration, f"initializer {name!a}"):
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
        array, _ = compiling.view(self._memory)
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


def _lend(options: SessionOptions, compilation: Compilation) -> None:
    sources = dict(compilation.sources)
    if not sources:
        return
    keep(options, sources)
    options.add_external_initializers_from_files_in_memory(
        list(sources),
        list(sources.values()),
        [compiling.view(data)[1] for data in sources.values()],
    )
