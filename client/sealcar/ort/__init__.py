"""ONNX Runtime with sealed packages: `load` a session, `compile` a variant, or set callbacks.

Importing this switches ONNX Runtime's event database off, so import it before onnxruntime. The
runtime itself is imported at the first call.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Final

from sealcar.errors import RuntimeSupportError
from sealcar.ort import runtime as runtime  # switches the event database off

if TYPE_CHECKING:
    from sealcar.ort.adapters import callback_api as callback_api
    from sealcar.ort.compiling import compile as compile  # noqa: A004  (the runtime's word)
    from sealcar.ort.ep import register_ep as register_ep
    from sealcar.ort.ep import unregister_ep as unregister_ep
    from sealcar.ort.loading import load as load
    from sealcar.ort.registering import clear_read_callback as clear_read_callback
    from sealcar.ort.registering import clear_write_callback as clear_write_callback
    from sealcar.ort.registering import set_read_callback as set_read_callback
    from sealcar.ort.registering import set_write_callback as set_write_callback
    from sealcar.ort.selecting import select as select

_HOMES: Final = {
    "callback_api": "adapters",
    "clear_read_callback": "registering",
    "clear_write_callback": "registering",
    "compile": "compiling",
    "load": "loading",
    "register_ep": "ep",
    "select": "selecting",
    "set_read_callback": "registering",
    "set_write_callback": "registering",
    "unregister_ep": "ep",
}


def __getattr__(name: str) -> object:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    try:
        home = import_module(f"{__name__}.{_HOMES[name]}")
    except ModuleNotFoundError as error:
        raise RuntimeSupportError(f"{error}; install sealcar[ort]") from error
    return getattr(home, name)


def __dir__() -> list[str]:
    return sorted({*globals(), *_HOMES})
