"""The way from the native trampolines into Python: one function of each kind, for the process.

They stay for good, so the runtime can never call one that is gone. Each looks up the registration
that its state names, runs its function, and sets the outcome's done flag last.
"""

from __future__ import annotations

import ctypes
import threading
from functools import cache
from typing import TYPE_CHECKING, Final

from sealcar.errors import ExhaustedError, RuntimeSupportError, WrongStateError
from sealcar.names import shown
from sealcar.ort import abi
from sealcar.ort.callbacks import STATUS_BYTES, Registration, blob, registered, status_text

if TYPE_CHECKING:
    from collections.abc import Callable

    from sealcar.ort.abi import CType

_PATH_BYTES: Final = 1000


class Outcome(ctypes.Structure):
    """What a callback reports to its trampoline."""

    _fields_ = (
        ("done", ctypes.c_int32),
        ("code", ctypes.c_int32),
        ("text", ctypes.c_char * (STATUS_BYTES + 1)),
    )


class _Placement(ctypes.Structure):
    _fields_ = (
        ("external", ctypes.c_int32),
        ("offset", ctypes.c_int64),
        ("size", ctypes.c_size_t),
        ("path", ctypes.c_char * (_PATH_BYTES + 1)),
    )


_STATE: Final = ctypes.c_size_t
_SIZE: Final = ctypes.c_size_t
_RESULT: Final = ctypes.POINTER(Outcome)
WRITE: Final = ctypes.CFUNCTYPE(None, _STATE, ctypes.c_char_p, abi.POINTER, _SIZE, _RESULT)
READ: Final = ctypes.CFUNCTYPE(None, _STATE, ctypes.c_char_p, abi.POINTER, _RESULT)
_MODEL: Final = ctypes.CFUNCTYPE(None, _STATE, abi.POINTER, _SIZE, _RESULT)
_LOCATION: Final = ctypes.CFUNCTYPE(
    None, _STATE, ctypes.c_char_p, abi.POINTER, _SIZE, ctypes.POINTER(_Placement), _RESULT
)


def _answer(state: int, outcome: CType, what: str, body: Callable[[Registration], None]) -> None:
    """Run one callback; whatever is raised is a failed outcome, and done is set last."""
    found: Registration | None = None
    try:
        found = registered(state)
        body(found)
    except BaseException as error:  # noqa: BLE001  (the runtime must get an answer to each)
        outcome[0].text = status_text(error, what).encode()
        if found is not None:
            found.failed(error)
    else:
        outcome[0].done = 1


def _name(raw: bytes) -> str:
    """Return a name; it comes from a model, so it may be anything."""
    return raw.decode(errors="surrogateescape")


def _write(state: int, raw: bytes, address: int, size: int, outcome: CType) -> None:
    name = _name(raw)

    def body(found: Registration) -> None:
        found.written = True
        if found.write is None:
            raise RuntimeSupportError("this compilation takes no blobs")
        found.write(name, address or 0, size)

    _answer(state, outcome, blob(name), body)


def _read(state: int, raw: bytes, io: int, outcome: CType) -> None:
    name = _name(raw)

    def body(found: Registration) -> None:
        if found.read is None:
            raise RuntimeSupportError("this session reads no blobs")
        allocation = _Allocation(io, found.limit, name)
        try:
            found.read(name, allocation)
        finally:
            allocation.close()
        allocation.require()

    _answer(state, outcome, blob(name), body)


def _model(state: int, address: int, size: int, outcome: CType) -> None:
    def body(found: Registration) -> None:
        if found.model is None:
            raise RuntimeSupportError("this compilation takes no model")
        found.model(address or 0, size)

    _answer(state, outcome, "the compiled model", body)


def _location(
    state: int, raw: bytes, address: int, size: int, placement: CType, outcome: CType
) -> None:
    name = _name(raw)

    def body(found: Registration) -> None:
        place = found.location(name, address or 0, size) if found.location else None
        if place is None:
            return
        path = place.path.encode()
        if len(path) > _PATH_BYTES:
            raise WrongStateError(f"an initializer's file name has over {_PATH_BYTES} bytes")
        placement[0].path = path
        placement[0].offset, placement[0].size = place.offset, place.size
        placement[0].external = 1

    _answer(state, outcome, f"initializer {shown(name)}", body)


class _Allocation:
    """The one piece of memory that a read function may ask for, during its call."""

    def __init__(self, io: int, limit: int, name: str) -> None:
        self._io: int | None = io
        self._limit = limit
        self._name = name
        self._made = False

    def __call__(self, size: int) -> int:
        """Return the address of `size` bytes in the provider's own memory."""
        if self._io is None or self._made:
            raise WrongStateError(f"{blob(self._name)}: memory is given once, during the call")
        if not 0 < size <= self._limit:
            raise ExhaustedError(
                f"{blob(self._name)} has {size} bytes; from 1 to {self._limit} are allowed"
            )
        address = abi.library().sealcar_allocate(self._io, size)
        if not address:
            raise ExhaustedError(f"the provider's allocator has no {size} bytes left")
        self._made = True
        return int(address)

    def close(self) -> None:
        """End it: the memory that it could ask for is the runtime's from now on."""
        self._io = None

    def require(self) -> None:
        """Refuse a read function that asked for nothing, so it brought nothing."""
        if not self._made:
            raise WrongStateError(f"{blob(self._name)}: the read function asked for no memory")


# objects that C holds the addresses of
_ENTRIES: Final = (WRITE(_write), READ(_read), _MODEL(_model), _LOCATION(_location))
_lock: Final = threading.Lock()


@cache
def _bound() -> None:
    addresses = (ctypes.cast(entry, abi.POINTER) for entry in _ENTRIES)
    if abi.library().sealcar_bind(abi.the_runtime().base, *addresses):
        raise RuntimeSupportError("this ONNX Runtime refuses version 28 of its C interface")


def trampoline(kind: str) -> int:
    """Return the address of the native "write", "read", "model" or "location" callback."""
    with _lock:
        _bound()
    return ctypes.cast(getattr(abi.library(), f"sealcar_{kind}"), abi.POINTER).value or 0
