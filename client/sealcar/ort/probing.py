"""Whether a provider honours the callbacks, found out before anything is decrypted.

ONNX Runtime asks a provider only while it loads or compiles a model; so it gets one that holds
nothing. What it says about the callbacks is believed. Any other outcome says nothing, since not
every provider takes so small a model: then loading or compiling itself fails closed.
"""

from __future__ import annotations

import ctypes
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Final

from sealcar import onnxscan
from sealcar.errors import NotFoundError, RuntimeSupportError, SealcarError
from sealcar.ort import adapters, runtime
from sealcar.ort.adapters import rejections
from sealcar.ort.callbacks import Compilation
from sealcar.ort.emptymodels import ordinary_model, precompiled_model

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from sealcar.ort.runtime import SessionOptions

_NAME: Final = "probe.bin"
_FATAL: Final = 4


def check_write(session_options: SessionOptions) -> None:
    """Check that the provider in these options calls the write callback.

    Raises:
        RuntimeSupportError: it doesn't; the message has its name and what to do.
    """
    job = Compilation(ordinary_model(), lambda _address, _size: None, write=_discard)
    with _undecided(session_options):
        adapters.registrar().compile(session_options, job)


def check_read(session_options: SessionOptions, ep: str) -> None:
    """Check that a provider calls the read callback under this runtime.

    Before 1.31 the runtime doesn't ask, so there is nothing to find out.

    Raises:
        RuntimeSupportError: it doesn't; the message has its name and what to do.
    """
    if not ep or runtime.version() < adapters.FIRST_STABLE:
        return
    registrar = adapters.registrar()
    registrar.set_read(session_options, _refuse)
    try:
        with _undecided(session_options):
            model = precompiled_model(ep, _NAME)
            runtime.onnxruntime().InferenceSession(model, session_options, enable_fallback=0)
    finally:
        registrar.clear_read(session_options)


def sdk_versions(session_options: SessionOptions, ep: str) -> set[str]:
    """Return the version of the SDK that a provider compiles with; empty: it doesn't tell.

    A compiled model names it, so a model that holds nothing is compiled.
    """
    model = bytearray()
    job = Compilation(
        ordinary_model(),
        lambda address, size: model.extend(ctypes.string_at(address, size)),
        embed=True,
    )
    versions: set[str] = set()
    with suppress(SealcarError), _undecided(session_options):
        adapters.registrar().compile(session_options, job)
        nodes = onnxscan.scan(model).ep_contexts
        versions.update(node.ep_sdk_version for node in nodes if node.source == ep)
    return versions - {""}


def _discard(_name: str, _address: int, _size: int, /) -> None:
    """Take a blob that holds nothing."""


def _refuse(_name: str, _allocate: Callable[[int], int], /) -> None:
    """Bring nothing: that the provider asks is all there is to know."""
    raise NotFoundError("there is no blob behind a probe")


@contextmanager
def _undecided(session_options: SessionOptions) -> Iterator[None]:
    """Let only what is said about the callbacks through, and keep the rest out of the log."""
    severity = session_options.log_severity_level
    session_options.log_severity_level = _FATAL
    try:
        yield
    except Exception as error:  # what isn't about callbacks the real load meets again
        found = error if isinstance(error, RuntimeSupportError) else rejections.explain(error)
        if found is not None:
            raise found from error
    finally:
        session_options.log_severity_level = severity
