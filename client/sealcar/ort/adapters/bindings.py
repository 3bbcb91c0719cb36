"""Callbacks through Python's own bindings of 1.31 and later, where the native part isn't built.

They lend no address, so each blob is copied once more; and before 1.32 the blobs' names can't be
chosen. It still fails closed: this runtime rejects a provider that doesn't declare support.
"""

from __future__ import annotations

import warnings
from typing import TYPE_CHECKING, Final

from sealcar.errors import RuntimeSupportError
from sealcar.ort import runtime
from sealcar.ort.adapters import compiling
from sealcar.ort.adapters.copying import Placer, Reader, Sink, Writer
from sealcar.ort.adapters.views import view
from sealcar.ort.callbacks import Compilation, ReadFunction, Registration, WriteFunction, keep

if TYPE_CHECKING:
    from sealcar.ort.runtime import Compiler, SessionOptions

_NAMED_FROM: Final = (1, 32)


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
        options.set_ep_context_data_read_func(Reader(registration), registration.limit)
        return registration

    def clear_read(self, options: SessionOptions) -> None:
        """Clear it with the bindings' own function."""
        options.clear_ep_context_data_read_func()

    def set_write(self, compiler: Compiler, write: WriteFunction) -> Registration:
        """Register a function that copies a blob and passes the copy on."""
        return set_write(compiler, write)

    def clear_write(self, compiler: Compiler) -> None:
        """Clear it with the bindings' own function."""
        clear_write(compiler)

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
                get_initializer_location_func=Placer(registration)
                if compilation.location
                else None,
            )
            if not compilation.embed:
                compiler.set_ep_context_data_write_func(Writer(registration))
            if runtime.version() >= _NAMED_FROM:
                name = f"{compilation.stem}.onnx"
                compiler.set_ep_context_binary_information(compiling.NOWHERE, name)
            compiler.compile_to_stream(Sink(registration))


def _lend(options: SessionOptions, compilation: Compilation) -> None:
    sources = dict(compilation.sources)
    if not sources:
        return
    keep(options, sources)
    options.add_external_initializers_from_files_in_memory(
        list(sources),
        list(sources.values()),
        [view(data)[1] for data in sources.values()],
    )


def set_write(compiler: Compiler, write: WriteFunction) -> Registration:
    """Set the write callback of a ModelCompiler.

    Raises:
        RuntimeSupportError: it can't have one.
    """
    if not hasattr(compiler, "set_ep_context_data_write_func"):
        raise RuntimeSupportError(
            "the write callback of a compiler made by hand needs the ModelCompiler of ONNX "
            "Runtime 1.31 or later; sealcar.ort.compile works on 1.28 and later"
        )
    registration = Registration(write=write)
    compiler.set_ep_context_data_write_func(Writer(registration))
    return registration


def clear_write(compiler: Compiler) -> None:
    """Clear the write callback of a ModelCompiler, if it could have one."""
    if hasattr(compiler, "clear_ep_context_data_write_func"):
        compiler.clear_ep_context_data_write_func()
