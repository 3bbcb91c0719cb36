"""Callbacks through the runtime's C functions: in place, and with the GIL released."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, Protocol

from sealcar.ort import abi
from sealcar.ort.adapters import bindings, compiling
from sealcar.ort.adapters.entries import trampoline
from sealcar.ort.callbacks import Compilation, ReadFunction, Registration, WriteFunction, keep

if TYPE_CHECKING:
    from sealcar.ort.runtime import Compiler, SessionOptions

_READ_SETTER: Final = "OrtApi_SessionOptions_SetEpContextDataReadFunc_SinceV28"
_WRITE_SETTER: Final = "OrtCompileApi_ModelCompilationOptions_SetEpContextDataWriteFunc_SinceV28"


class Setters(Protocol):
    """Where a runtime has the functions that register callbacks."""

    def read(self) -> int:
        """Return the address of the function that sets the read callback."""

    def write(self) -> int:
        """Return the address of the function that sets the write callback."""


class ExperimentalSetters:
    """1.28 to 1.30: by name."""

    def read(self) -> int:
        """Look the read setter up."""
        return abi.the_runtime().experimental(_READ_SETTER)

    def write(self) -> int:
        """Look the write setter up."""
        return abi.the_runtime().experimental(_WRITE_SETTER)


class StableSetters:
    """1.31 and later: by slot."""

    def read(self) -> int:
        """Take the read setter from the main table."""
        return int(abi.the_runtime().api[abi.Api.SET_READ])

    def write(self) -> int:
        """Take the write setter from the compile table."""
        return int(abi.the_runtime().compile_api[abi.CompileApi.SET_WRITE])


class NativeRegistrar:
    """A `Registrar` over one pair of setters."""

    def __init__(self, setters: Setters) -> None:
        self._setters = setters

    def set_read(
        self, options: SessionOptions, read: ReadFunction, *, limit: int | None = None
    ) -> Registration:
        """Register the native trampoline, with a state that names the function."""
        registration = Registration(read=read, limit=limit)
        keep(options, registration)
        self._set_read(options, trampoline("read"), registration.state)
        return registration

    def clear_read(self, options: SessionOptions) -> None:
        """Register NULL."""
        self._set_read(options, None, None)

    def set_write(self, compiler: Compiler, write: WriteFunction) -> Registration:
        """Register the native trampoline at an address, or a function with Python's compiler."""
        if not isinstance(compiler, int):
            return bindings.set_write(compiler, write)
        registration = Registration(write=write)
        self._set_write(compiler, trampoline("write"), registration.state)
        return registration

    def clear_write(self, compiler: Compiler) -> None:
        """Register NULL."""
        if isinstance(compiler, int):
            self._set_write(compiler, None, None)
        else:
            bindings.clear_write(compiler)

    def compile(self, options: SessionOptions, compilation: Compilation) -> None:
        """Compile through the C interface."""
        compiling.compile_native(options, compilation, self._setters.write())

    def _set_write(self, compiler: int, callback: int | None, state: int | None) -> None:
        setter = abi.at(self._setters.write(), abi.POINTER, abi.POINTER, abi.POINTER)
        abi.the_runtime().check(setter(compiler, callback, state))

    def _set_read(self, options: SessionOptions, callback: int | None, state: int | None) -> None:
        setter = abi.at(self._setters.read(), abi.POINTER, abi.POINTER, abi.POINTER)
        abi.the_runtime().check(setter(abi.address_of(options), callback, state))
