"""ONNX Runtime's C functions, reached through ctypes by their slots.

Slots are facts of an append-only interface: the same from 1.28 on, wherever they exist. Calls
through ctypes release the GIL, so a compilation here never blocks other threads of Python.
"""

from __future__ import annotations

import ctypes
import threading
from collections.abc import Callable
from enum import IntEnum
from functools import cache
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from sealcar import native
from sealcar.errors import RuntimeSupportError
from sealcar.ort import runtime

if TYPE_CHECKING:
    from sealcar.ort.runtime import SessionOptions, Untyped

POINTER: Final = ctypes.c_void_p
Function: TypeAlias = Callable[..., Any]
Table: TypeAlias = Any
# ctypes' own types are typed too loosely to say more
CType: TypeAlias = Any

# Slots of a version are looked at only in what a runtime gives out as that version. Every one from
# 1.28 on accepts the first; the other has the stable callback functions.
_EXPERIMENTAL, _STABLE = 28, 31
_GET_API: Final = 0


class Api(IntEnum):
    """Slots of the main table."""

    CREATE_STATUS = 0
    GET_ERROR_CODE = 1
    GET_ERROR_MESSAGE = 2
    CREATE_ENV = 3
    CLONE_SESSION_OPTIONS = 12
    RELEASE_STATUS = 93
    RELEASE_SESSION_OPTIONS = 100
    FILES_IN_MEMORY = 279
    GET_COMPILE_API = 294
    GET_EXPERIMENTAL_FUNCTION = 422
    SET_READ = 426  # 1.31 and later


class CompileApi(IntEnum):
    """Slots of the compile table."""

    RELEASE = 0
    CREATE = 1
    SET_MODEL_BUFFER = 3
    SET_EMBED_MODE = 7
    COMPILE = 8
    SET_FLAGS = 9
    SET_BINARY_INFORMATION = 10
    SET_OPTIMIZATION = 11
    SET_MODEL_SINK = 12
    SET_INITIALIZER_LOCATION = 13
    SET_WRITE = 16  # 1.31 and later


# the runtime's error codes; the class of each has this name in its Python module
_ERRORS: Final = (
    "",
    "Fail",
    "InvalidArgument",
    "NoSuchFile",
    "NoModel",
    "EngineError",
    "RuntimeException",
    "InvalidProtobuf",
    "ModelLoaded",
    "NotImplemented",
    "InvalidGraph",
    "EPFail",
    "ModelLoadCanceled",
    "ModelRequiresCompilation",
    "NotFound",
    "DeviceReset",
)


class Runtime:
    """The runtime's tables and its one environment."""

    def __init__(self, library: ctypes.CDLL, base: int) -> None:
        self.library = library
        self.base = base
        get_api = ctypes.CFUNCTYPE(POINTER, ctypes.c_uint32)(_table(base)[_GET_API])
        asked = _STABLE if runtime.version() >= runtime.FIRST_STABLE else _EXPERIMENTAL
        address = get_api(asked)
        if not address:
            raise RuntimeSupportError(
                f"this ONNX Runtime refuses version {asked} of its C interface"
            )
        self.api = _table(address)
        self.compile_api = _table(function(self.api, Api.GET_COMPILE_API, POINTER)())
        self._code = function(self.api, Api.GET_ERROR_CODE, ctypes.c_int, POINTER)
        self._text = function(self.api, Api.GET_ERROR_MESSAGE, ctypes.c_char_p, POINTER)
        self._release = function(self.api, Api.RELEASE_STATUS, None, POINTER)
        environment = POINTER()
        create = function(self.api, Api.CREATE_ENV, POINTER, ctypes.c_int, ctypes.c_char_p, POINTER)
        self.check(create(_WARNING, b"sealcar", ctypes.byref(environment)))
        self.environment = environment

    def experimental(self, name: str) -> int:
        """Return the address of an experimental function.

        Raises:
            RuntimeSupportError: this runtime has no such function.
        """
        look_up = function(self.api, Api.GET_EXPERIMENTAL_FUNCTION, POINTER, ctypes.c_char_p)
        found = look_up(name.encode())
        if not found:
            raise RuntimeSupportError(f"this ONNX Runtime has no function {name}")
        return int(found)

    def check(self, status: int | None) -> None:
        """Raise what a status says as the class that the runtime's own bindings raise."""
        if not status:
            return
        code = self._code(status)
        text = self._text(status).decode(errors="replace")
        self._release(status)
        raise error_class(code)(f"[ONNXRuntimeError] : {code} : {text}")


_WARNING: Final = 2


def error_class(code: int) -> type[Exception]:
    """Return the runtime's exception for one of its error codes."""
    known = _bindings()
    name = _ERRORS[code] if 0 < code < len(_ERRORS) else "Fail"
    found: type[Exception] = getattr(known, name, known.Fail)
    return found


def error_classes() -> tuple[type[Exception], ...]:
    """Return all of the runtime's exceptions; they share no base but Exception."""
    return tuple({error_class(code) for code in range(1, len(_ERRORS))})


def failures() -> tuple[type[Exception], ...]:
    """Return all that a call of the runtime's bindings raises, not only the runtime's own."""
    return (*error_classes(), RuntimeError, ValueError)


def function(table: Table, slot: int, result: CType, *arguments: CType) -> Function:
    """Return the function in a slot of a table."""
    return ctypes.CFUNCTYPE(result, *arguments)(table[slot])


def at(address: int, *arguments: CType) -> Function:
    """Return the function at an address, which returns a status."""
    return ctypes.CFUNCTYPE(POINTER, *arguments)(address)


def library() -> ctypes.CDLL:
    """Return the native part.

    Raises:
        RuntimeSupportError: sealcar was built without it.
    """
    found = native.library()
    if found is None:
        raise RuntimeSupportError(
            "sealcar was built without its native part; install a C compiler and build it again"
        )
    return found


def address_of(options: SessionOptions) -> int:
    """Return the OrtSessionOptions behind options, valid while they live."""
    captured = library()
    options.register_custom_ops_library(str(native.PATH))
    found = captured.sealcar_captured_options()
    if not found:
        raise RuntimeSupportError("this ONNX Runtime didn't hand over its session options")
    return int(found)


_lock: Final = threading.Lock()


def the_runtime() -> Runtime:
    """Return the process's runtime."""
    with _lock:
        return _captured()


@cache
def _captured() -> Runtime:
    address_of(runtime.onnxruntime().SessionOptions())
    base = library().sealcar_captured_base()
    return Runtime(library(), base)


def _table(address: int) -> Table:
    return ctypes.cast(address, ctypes.POINTER(POINTER))


def _bindings() -> Untyped:
    return runtime.onnxruntime().capi.onnxruntime_pybind11_state
