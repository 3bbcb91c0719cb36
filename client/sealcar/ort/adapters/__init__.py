"""The runtime's callback functions behind one interface, chosen by what the runtime offers.

* "experimental": 1.28 to 1.30, the functions `…_SinceV28` of its experimental table.
* "stable": 1.31 and later, the same signatures at fixed slots.
* "bindings": 1.31 and later where sealcar's native part isn't built, through Python's own
  bindings, at the price of one more copy of each blob.
* "none": 1.28 to 1.30 without the native part. Only embedded blobs work.

Up to 1.30 `InferenceSession()` holds the GIL while it calls back, so a provider that read its blobs
from a thread of its own would wait for ever. None of the published ones does.
"""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, Literal, Protocol, TypeAlias

from sealcar import native
from sealcar.errors import RuntimeSupportError
from sealcar.ort import runtime
from sealcar.ort.adapters.bindings import BindingsRegistrar
from sealcar.ort.adapters.native_registrar import (
    ExperimentalSetters,
    NativeRegistrar,
    StableSetters,
)

if TYPE_CHECKING:
    from sealcar.ort.callbacks import Compilation, ReadFunction, Registration, WriteFunction
    from sealcar.ort.runtime import Compiler, SessionOptions

CallbackApi: TypeAlias = Literal["experimental", "stable", "bindings", "none"]

FIRST_STABLE = runtime.FIRST_STABLE


class Registrar(Protocol):
    """Registers callbacks with options, and compiles."""

    def set_read(
        self, options: SessionOptions, read: ReadFunction, *, limit: int | None = None
    ) -> Registration:
        """Let sessions made with options get their blobs from `read`, in place of an earlier one.

        Args:
            options: the registration lives as long as they do, and an InferenceSession keeps them.
            read: called from any thread, several times for one name.
            limit: the largest blob allowed; at most the machine's memory.

        Raises:
            RuntimeSupportError: this runtime has no callbacks.
        """

    def clear_read(self, options: SessionOptions) -> None:
        """Take the read callback off options; sessions that exist keep theirs."""

    def set_write(self, compiler: Compiler, write: WriteFunction) -> Registration:
        """Let a compilation made by hand hand its blobs to `write`.

        Args:
            compiler: a ModelCompiler of 1.31 or later, which keeps the registration; or the address
                of an OrtModelCompilationOptions, and then the caller keeps it.
            write: called from any thread.

        Raises:
            RuntimeSupportError: this compiler can't have a callback.
        """

    def clear_write(self, compiler: Compiler) -> None:
        """Take the write callback off."""

    def compile(self, options: SessionOptions, compilation: Compilation) -> None:
        """Compile for the providers of options, with no plain file on the way.

        It fails if no node was compiled. The runtime's own exception is raised; where one of the
        functions failed, the function's exception is its cause.

        Raises:
            InvalidRequestError: the compilation contradicts itself.
            RuntimeSupportError: the runtime or the provider can't do it; the message says what can.
        """


def choose(version: tuple[int, int], *, native_part: bool) -> CallbackApi:
    """Return the way that suits a runtime's version and what is built."""
    if version >= FIRST_STABLE:
        return "stable" if native_part else "bindings"
    return "experimental" if native_part else "none"


@cache
def callback_api() -> CallbackApi:
    """Return which callback interface of the installed runtime sealcar uses.

    Raises:
        RuntimeSupportError: there is no usable runtime.
    """
    return choose(runtime.version(), native_part=native.library() is not None)


@cache
def registrar() -> Registrar:
    """Return the interface for the installed runtime.

    Raises:
        RuntimeSupportError: there is no usable runtime, or it has no callbacks that sealcar can
            reach; the message says what can be done.
    """
    way = callback_api()
    if way == "none":
        raise RuntimeSupportError(
            "sealcar was built without its native part, which ONNX Runtime before 1.31 needs; "
            "install a C compiler and build it again, or use ONNX Runtime 1.31 or later"
        )
    if way == "bindings":
        return BindingsRegistrar()
    return NativeRegistrar(ExperimentalSetters() if way == "experimental" else StableSetters())
