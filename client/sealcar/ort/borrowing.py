"""Weights that a session uses where they lie, which is what makes sharing them worth while.

The runtime borrows an initializer that is given by name, and asks three things for it: it wants the
external file to exist (an empty one will do: it is made for as long as the session is), it believes
type and shape (they are the model's own here), and it copies what it packs for speed, unless it is
told not to. An optimisation that computes with weights before the session runs reads them from the
file, and fails: then the session is made with copies of its own.
"""

from __future__ import annotations

import posixpath
import re
import tempfile
import weakref
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from sealcar.errors import SealcarError, WrongStateError
from sealcar.ort import abi, configured, runtime, scopes

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from sealcar.onnxscan import Tensor
    from sealcar.ort.initializers import Files
    from sealcar.ort.runtime import Session, SessionOptions
    from sealcar.ort.sessions import Provider

UNPACKED: Final = "session.disable_prepacking"
_FATAL: Final = 4
_OF_THE_MODEL: Final = re.compile(r"graph\.initializer\[\d+\]")
# by TensorProto.DataType, the numpy type of an element: those that fill whole bytes
_TYPES: Final = {
    **dict.fromkeys((1,), "<f4"),
    **dict.fromkeys((2, 17, 18, 19, 20), "u1"),
    **dict.fromkeys((4, 10, 16), "<u2"),
    **dict(zip((3, 5, 6, 7), ("i1", "<i2", "<i4", "<i8"), strict=True)),
    **dict(zip((9, 11, 12, 13), ("?", "<f8", "<u4", "<u8"), strict=True)),
}


@dataclass
class _Loan:
    """What options keep for good: bare addresses, and a name that leads nowhere any more."""

    values: list[Mapping[str, Any]]
    folder: str = ""


_lent: Final[weakref.WeakKeyDictionary[SessionOptions, _Loan]] = weakref.WeakKeyDictionary()


def callers(session_options: SessionOptions, entries: Mapping[str, str]) -> Mapping[str, str]:
    """Return the configuration entries without what an earlier loan left in the options."""
    loan = _lent.get(session_options)
    ours = loan is not None and entries.get(scopes.WEIGHTS_FOLDER) == loan.folder
    return {
        key: value for key, value in entries.items() if not ours or key != scopes.WEIGHTS_FOLDER
    }


def possible(
    session_options: SessionOptions,
    providers: Sequence[Provider] | None,
    entries: Mapping[str, str],
) -> bool:
    """Tell whether a session with these options could use weights where they lie.

    Only the CPU provider does, and only if the caller doesn't insist on packing.

    Raises:
        RuntimeSupportError: no session can be made with these options.
    """
    if entries.get(UNPACKED) == "0":
        return False
    return configured.configured(session_options, providers).names == (configured.CPU,)


def session(
    session_options: SessionOptions,
    weights: Sequence[Tensor],
    files: Files,
    make: Callable[[], Session],
) -> Session | None:
    """Return a session that borrows all weights, and keeps them; None: it has to copy them.

    Args:
        session_options: that `make` uses.
        weights: every tensor of the model that lies in a file.
        files: as `initializers.fetch` returns them.
        make: makes the session.

    Raises:
        WrongStateError: the options were lent weights of these names before.
    """
    values = _values(weights, files)
    if not values:
        return None
    loan = _lend(session_options, values)
    severity = session_options.log_severity_level
    try:
        with tempfile.TemporaryDirectory(prefix="sealcar-") as folder:
            _place(Path(folder), files)
            loan.folder = folder
            _set(session_options, scopes.WEIGHTS_FOLDER, folder)
            _set(session_options, UNPACKED, "1")
            # that it can't be done this way is no error
            session_options.log_severity_level = _FATAL
            made = make()
    except _cant_be_done():
        loan.folder = ""
        _set(session_options, scopes.WEIGHTS_FOLDER, "")
        _set(session_options, UNPACKED, "0")
        return None
    finally:
        session_options.log_severity_level = severity
    made.keep(values)
    return made


def _cant_be_done() -> tuple[type[Exception], ...]:
    return (OSError, SealcarError, *abi.failures())


def _values(weights: Sequence[Tensor], files: Files) -> dict[str, Any]:
    """Return each weight over the memory of its file; nothing if one can't be borrowed."""
    values: dict[str, Any] = {}
    for tensor in weights:
        value = _value(tensor, files)
        if value is None or tensor.name in values:
            return {}
        values[tensor.name] = value
    return values


def _value(tensor: Tensor, files: Files) -> object | None:
    numpy = runtime.numpy()
    external, kind, size = tensor.external, _TYPES.get(tensor.data_type), tensor.byte_size
    if external is None or kind is None or not size or not _OF_THE_MODEL.fullmatch(tensor.path):
        return None
    file = files[f"./{external.location}"]
    if external.length not in (None, size) or external.offset + size > file.nbytes:
        return None
    start = numpy.frombuffer(file, "u1")[external.offset : external.offset + size]
    data = start.view(kind).reshape(tensor.dims)
    if not data.flags.aligned:
        return None
    make = runtime.onnxruntime().OrtValue.ortvalue_from_numpy_with_onnx_type
    value: Any = make(data, tensor.data_type)
    return value if value.data_ptr() == data.ctypes.data else None


def _lend(session_options: SessionOptions, values: Mapping[str, Any]) -> _Loan:
    loan = _lent.setdefault(session_options, _Loan([]))
    loan.values.append(values)
    try:
        for name, value in values.items():
            session_options.add_initializer(name, value)
    except abi.failures() as error:
        raise WrongStateError(
            "these session options have been used for a model with shared initializers already; "
            "make new ones for each such model"
        ) from error
    return loan


def _set(session_options: SessionOptions, key: str, value: str) -> None:
    # the runtime warns of an entry that is there already
    try:
        same = session_options.get_session_config_entry(key) == value
    except abi.failures():
        same = False
    if not same:
        session_options.add_session_config_entry(key, value)


def _place(folder: Path, files: Files) -> None:
    for name in files:
        path = folder / posixpath.normpath(name)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.touch()
