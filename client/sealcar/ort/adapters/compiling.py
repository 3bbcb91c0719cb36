"""Compiling through the runtime's C interface.

Fails closed on every version: the directory that blobs would go to can't exist, so a provider that
ignores the write callback fails instead of leaving a plain file, and so does a compilation that
compiles no node. The options that the caller gave are cloned: what is lent to the compilation is
gone from them when it ends.
"""

from __future__ import annotations

import ctypes
import re
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final

from sealcar.errors import InvalidRequestError
from sealcar.names import shown
from sealcar.ort import abi
from sealcar.ort.abi import POINTER, Api, CompileApi, CType
from sealcar.ort.adapters import rejections
from sealcar.ort.adapters.entries import trampoline
from sealcar.ort.adapters.views import view
from sealcar.ort.callbacks import Compilation, Registration

if TYPE_CHECKING:
    from collections.abc import Iterator

    from sealcar.ort.runtime import SessionOptions

# no directory can be below a device, so nothing can be created there
NOWHERE: Final = "/dev/null/"
ERROR_IF_NOTHING_COMPILED: Final = 1
# by the runtime's own names and numbers
OPTIMIZATIONS: Final = {
    "off": ("ORT_DISABLE_ALL", 0),
    "basic": ("ORT_ENABLE_BASIC", 1),
    "extended": ("ORT_ENABLE_EXTENDED", 2),
    "all": ("ORT_ENABLE_ALL", 99),
}

_STEM: Final = re.compile(r"[A-Za-z0-9_-]{1,100}")


def check(compilation: Compilation) -> None:
    """Refuse a compilation that contradicts itself.

    Raises:
        InvalidRequestError: the message says how.
    """
    if compilation.write is None and not compilation.embed:
        raise InvalidRequestError("a compilation needs a write function, or embed")
    if not _STEM.fullmatch(compilation.stem):
        raise InvalidRequestError(
            f"stem {shown(compilation.stem)} must be 1 to 100 letters, digits, _ or -"
        )
    if compilation.optimization not in OPTIMIZATIONS:
        raise InvalidRequestError(
            f"optimization {shown(compilation.optimization)}: one of {', '.join(OPTIMIZATIONS)}"
        )
    if not len(memoryview(compilation.model).cast("B")):
        raise InvalidRequestError("the source model is empty")


def registration_of(compilation: Compilation) -> Registration:
    """Return the registration of a compilation's functions."""
    return Registration(
        write=None if compilation.embed else compilation.write,
        model=compilation.sink,
        location=compilation.location,
    )


@contextmanager
def explained(registration: Registration) -> Iterator[None]:
    """Name the function's own failure as the cause, and a provider's lack of support as ours."""
    try:
        yield
    except abi.error_classes() as error:
        if registration.failure is not None:
            raise error from registration.failure
        found = rejections.explain(error)
        if found is None and registration.write is not None and not registration.written:
            found = rejections.ignored(error)
        if found is not None:
            raise found from error
        raise
    finally:
        registration.close()


def compile_native(options: SessionOptions, compilation: Compilation, write_setter: int) -> None:
    """Compile; `write_setter` is the address of the function that sets the write callback."""
    check(compilation)
    ort = abi.the_runtime()
    registration = registration_of(compilation)
    state = registration.state
    with (
        explained(registration),
        _cloned(ort, options) as clone,
        _lending(ort, clone, compilation),
        _created(ort, clone) as job,
    ):
        model, size = view(compilation.model)
        name = f"{compilation.stem}.onnx".encode()
        _step(ort, CompileApi.SET_MODEL_BUFFER, job, POINTER(model.ctypes.data), _size(size))
        _step(ort, CompileApi.SET_MODEL_SINK, job, POINTER(trampoline("model")), POINTER(state))
        _step(ort, CompileApi.SET_EMBED_MODE, job, ctypes.c_bool(compilation.embed))
        _step(ort, CompileApi.SET_FLAGS, job, ctypes.c_uint32(ERROR_IF_NOTHING_COMPILED))
        _, level = OPTIMIZATIONS[compilation.optimization]
        _step(ort, CompileApi.SET_OPTIMIZATION, job, ctypes.c_int(level))
        _step(
            ort,
            CompileApi.SET_BINARY_INFORMATION,
            job,
            ctypes.c_char_p(NOWHERE.encode()),
            ctypes.c_char_p(name),
        )
        if compilation.location is not None:
            place = POINTER(trampoline("location"))
            _step(ort, CompileApi.SET_INITIALIZER_LOCATION, job, place, POINTER(state))
        if not compilation.embed:
            setter = abi.at(write_setter, POINTER, POINTER, POINTER)
            ort.check(setter(job, trampoline("write"), state))
        compile_ = abi.function(ort.compile_api, CompileApi.COMPILE, POINTER, POINTER, POINTER)
        ort.check(compile_(ort.environment, job))


def _size(size: int) -> ctypes.c_size_t:
    return ctypes.c_size_t(size)


def _step(ort: abi.Runtime, slot: CompileApi, job: CType, *arguments: CType) -> None:
    types = (type(argument) for argument in arguments)
    ort.check(abi.function(ort.compile_api, slot, POINTER, POINTER, *types)(job, *arguments))


@contextmanager
def _cloned(ort: abi.Runtime, options: SessionOptions) -> Iterator[CType]:
    clone = POINTER()
    make = abi.function(ort.api, Api.CLONE_SESSION_OPTIONS, POINTER, POINTER, POINTER)
    ort.check(make(abi.address_of(options), ctypes.byref(clone)))
    try:
        yield clone
    finally:
        abi.function(ort.api, Api.RELEASE_SESSION_OPTIONS, None, POINTER)(clone)


@contextmanager
def _lending(ort: abi.Runtime, options: CType, compilation: Compilation) -> Iterator[None]:
    """Lend the source's external files, which the runtime reads until the compilation ends."""
    views = {name: view(data) for name, data in compilation.sources.items()}
    if not views:
        yield
        return
    count = len(views)
    names = (ctypes.c_char_p * count)(*(name.encode() for name in views))
    addresses = (POINTER * count)(*(array.ctypes.data for array, _ in views.values()))
    sizes = (ctypes.c_size_t * count)(*(size for _, size in views.values()))
    add = abi.function(
        *(ort.api, Api.FILES_IN_MEMORY, POINTER),
        *(POINTER, POINTER, POINTER, POINTER, ctypes.c_size_t),
    )
    ort.check(add(options, names, addresses, sizes, count))
    yield
    # until here, not only to the last mention above: the runtime keeps bare addresses
    views.clear()


@contextmanager
def _created(ort: abi.Runtime, options: CType) -> Iterator[CType]:
    job = POINTER()
    make = abi.function(ort.compile_api, CompileApi.CREATE, POINTER, POINTER, POINTER, POINTER)
    ort.check(make(ort.environment, options, ctypes.byref(job)))
    try:
        yield job
    finally:
        abi.function(ort.compile_api, CompileApi.RELEASE, None, POINTER)(job)
