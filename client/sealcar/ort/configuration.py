"""Configuration of `SessionOptions`: what the caller set is read, a package's options are added."""

from __future__ import annotations

import ctypes
import warnings
from typing import TYPE_CHECKING, Any, Final

from sealcar import native
from sealcar.errors import InvalidPackageError
from sealcar.names import shown
from sealcar.ort import abi, options, runtime

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from sealcar.ort.options import PackageOptions
    from sealcar.ort.runtime import SessionOptions

# slots of the main table
_GET_PAIRS: Final = 298
_RELEASE_PAIRS: Final = 300
_CONFIG_ENTRIES: Final = 379

_LEVELS: Final = {
    "disable_all": "ORT_DISABLE_ALL",
    "enable_basic": "ORT_ENABLE_BASIC",
    "enable_extended": "ORT_ENABLE_EXTENDED",
    "enable_layout": "ORT_ENABLE_LAYOUT",
    "enable_all": "ORT_ENABLE_ALL",
}
_MODES: Final = {"sequential": "ORT_SEQUENTIAL", "parallel": "ORT_PARALLEL"}


class PackageOptionWarning(UserWarning):
    """A package brings options that aren't applied; the text says which and why."""


def entries_of(session_options: SessionOptions) -> dict[str, str]:
    """Return all configuration entries, and as such also the attributes that write files.

    Without the native part entries can't be listed: then those are asked for that a table knows.
    """
    listed = native.library() is not None
    entries = _listed(session_options) if listed else _probed(session_options)
    if session_options.enable_profiling:
        entries["session.enable_profiling"] = "1"
    if session_options.optimized_model_filepath:
        entries["session.optimized_model_filepath"] = session_options.optimized_model_filepath
    return entries


def entry(session_options: SessionOptions, key: str) -> str | None:
    """Return a configuration entry; None: nobody set it."""
    try:
        value: str = session_options.get_session_config_entry(key)
    except abi.failures():  # the entry isn't there
        return None
    return value


def prefer(session_options: SessionOptions, key: str) -> bool:
    """Set an entry to "1" if nobody set it; tell whether that was so."""
    if entry(session_options, key) is not None:
        return False
    session_options.add_session_config_entry(key, "1")
    return True


def apply(
    session_options: SessionOptions, of_package: PackageOptions, callers: Mapping[str, str]
) -> None:
    """Add what a package may set, where the caller set nothing; warn about what is dropped.

    Raises:
        InvalidPackageError: a value that the runtime refuses.
    """
    if of_package.dropped:
        text = "; ".join(map(str, of_package.dropped))
        warnings.warn(
            f"options of the package aren't applied: {text}", PackageOptionWarning, stacklevel=4
        )
    for key, value in of_package.entries.items():
        if key not in callers:
            _set(session_options, key, value)


def _set(session_options: SessionOptions, key: str, value: str) -> None:
    try:
        if key not in _ATTRIBUTES:
            session_options.add_session_config_entry(key, value)
            return
        name, parse = _ATTRIBUTES[key]
        default = getattr(runtime.onnxruntime().SessionOptions(), name)
        if getattr(session_options, name) == default:
            setattr(session_options, name, parse(value))
    except (AttributeError, KeyError, RuntimeError, TypeError, ValueError) as error:
        raise InvalidPackageError(
            f"the package sets {shown(key)} to {shown(value)}, which ONNX Runtime doesn't take"
        ) from error


def _listed(session_options: SessionOptions) -> dict[str, str]:
    ort = abi.the_runtime()
    pairs = abi.POINTER()
    get = abi.function(ort.api, _CONFIG_ENTRIES, abi.POINTER, abi.POINTER, abi.POINTER)
    ort.check(get(abi.address_of(session_options), ctypes.byref(pairs)))
    try:
        keys, values = ctypes.POINTER(ctypes.c_char_p)(), ctypes.POINTER(ctypes.c_char_p)()
        count = ctypes.c_size_t()
        view = abi.function(ort.api, _GET_PAIRS, None, *[abi.POINTER] * 4)
        view(pairs, ctypes.byref(keys), ctypes.byref(values), ctypes.byref(count))
        return {_text(keys[i]): _text(values[i]) for i in range(count.value)}
    finally:
        abi.function(ort.api, _RELEASE_PAIRS, None, abi.POINTER)(pairs)


def _text(raw: bytes | None) -> str:
    return (raw or b"").decode(errors="replace")


def _probed(session_options: SessionOptions) -> dict[str, str]:
    found = ((key, entry(session_options, key)) for key in options.keys_of())
    return {key: value for key, value in found if value is not None}


def _switch(value: str) -> bool:
    return {"0": False, "1": True, "false": False, "true": True}[value]


def _constant(enumeration: str, names: Mapping[str, str]) -> Callable[[str], Any]:
    return lambda value: getattr(getattr(runtime.onnxruntime(), enumeration), names[value])


# what the runtime keeps as attributes, though packages write it as entries
_ATTRIBUTES: Final[Mapping[str, tuple[str, Callable[[str], Any]]]] = {
    "session.enable_cpu_mem_arena": ("enable_cpu_mem_arena", _switch),
    "session.enable_mem_pattern": ("enable_mem_pattern", _switch),
    "session.execution_mode": ("execution_mode", _constant("ExecutionMode", _MODES)),
    "session.graph_optimization_level": (
        "graph_optimization_level",
        _constant("GraphOptimizationLevel", _LEVELS),
    ),
    "session.inter_op_num_threads": ("inter_op_num_threads", int),
    "session.intra_op_num_threads": ("intra_op_num_threads", int),
    "session.log_severity_level": ("log_severity_level", int),
    "session.use_deterministic_compute": ("use_deterministic_compute", _switch),
}
