"""Weights that a session uses where they lie: not copied, and so sooner there.

The runtime borrows an initializer that is given by name, and asks three things for it: it wants the
external file to exist (an empty one will do: it is made for as long as loading takes), it believes
type and shape (they are the model's own here), and it copies what it packs for speed, unless it is
told not to, as it is for shared weights. An optimisation that computes with weights before the
session runs reads them from the file, and fails: then the session is made with copies of its own.
"""

from __future__ import annotations

import posixpath
import tempfile
import weakref
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from sealcar.errors import SealcarError, WrongStateError
from sealcar.ort import abi, configuration, configured, lending, runtime, scopes
from sealcar.ort.copies import CopiesMeanwhile

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from sealcar.onnxscan import Tensor
    from sealcar.ort.initializers import Files
    from sealcar.ort.runtime import Session, SessionOptions
    from sealcar.ort.sessions import Provider

UNPACKED: Final = "session.disable_prepacking"
_DEFAULT: Final = (-1, 2)  # warnings
_FATAL: Final = 4
_ONLY_BY_NAME: Final = "AzureExecutionProvider"
# what an optimisation on the CPU surely computes with: the operator's name as a node has it
_COMPUTED_WITH: Final = tuple(
    bytes((0x22, len(name))) + name
    for name in (b"Conv", b"ConvTranspose", b"ConvInteger", b"BatchNormalization")
)
# the options keep bare addresses of the values for good
_lent: Final[weakref.WeakKeyDictionary[SessionOptions, Mapping[str, Any]]] = (
    weakref.WeakKeyDictionary()
)


def check_new(session_options: SessionOptions) -> None:
    """Check that no weights were lent to options: any other model would get those by their names.

    Raises:
        WrongStateError: some were.
    """
    if session_options in _lent:
        raise _used()


def possible(
    session_options: SessionOptions,
    providers: Sequence[Provider] | None,
    entries: Mapping[str, str],
    model: bytes,
    *,
    shared: bool,
) -> bool:
    """Tell whether a session of a model with these options could use weights where they lie.

    Only the CPU provider does; shared ones only if the caller doesn't insist on packing, private
    ones only if the model has nothing in it that they are surely computed with.

    Raises:
        RuntimeSupportError: no session can be made with these options.
    """
    if shared and entries.get(UNPACKED) == "0":
        return False
    if not shared and any(name in model for name in _COMPUTED_WITH):
        return False
    named = (each if isinstance(each, str) else each[0] for each in providers or ())
    if any(name != configured.CPU for name in named):
        return False
    if not session_options.has_providers() and (providers or _cpu_by_default()):
        return True
    return configured.configured(session_options, providers).names == (configured.CPU,)


def _cpu_by_default() -> bool:
    """Tell whether sessions that nobody configured are the CPU's: to ask one takes its time."""
    return {*runtime.onnxruntime().get_available_providers()} <= {configured.CPU, _ONLY_BY_NAME}


def session(
    session_options: SessionOptions,
    weights: Sequence[Tensor],
    files: Files,
    ways: tuple[Callable[[], Session], Callable[[], Session]],
    *,
    shared: bool,
) -> Session:
    """Return a session that borrows all weights, or else one that was made the other way.

    Args:
        session_options: that both ways use.
        weights: every tensor of the model that lies in a file.
        files: as `initializers.fetch` returns them.
        ways: make the session; the second one with copies of the weights.
        shared: the memory is other processes' too, so nothing is packed.

    Raises:
        WrongStateError: the caller lent weights of these names to the options himself.
    """
    make, otherwise = ways
    lent = lending.lend(weights, files, own=not shared)
    if not lent.values:
        return otherwise()
    _lend(session_options, lent.values)
    # of shared ones nothing is packed
    sizes = () if shared else (tensor.byte_size or 0 for tensor in weights)
    # what was lent once is used the other way, too
    with CopiesMeanwhile(sizes):
        made = _borrowing(session_options, files, make, shared=shared) or otherwise()
    made.keep(lent.kept)
    return made


def _borrowing(
    session_options: SessionOptions,
    files: Files,
    make: Callable[[], Session],
    *,
    shared: bool,
) -> Session | None:
    severity = session_options.log_severity_level
    try:
        with tempfile.TemporaryDirectory(prefix="sealcar-") as folder:
            _place(Path(folder), files)
            _set(session_options, scopes.WEIGHTS_FOLDER, folder)
            if shared:
                _set(session_options, UNPACKED, "1")
            # that it can't be done this way is no error; who set it wants to see what there is
            if severity in _DEFAULT:
                session_options.log_severity_level = _FATAL
            return make()
    except _cant_be_done():
        _set(session_options, scopes.WEIGHTS_FOLDER, "")
        if shared:
            _set(session_options, UNPACKED, "0")
        return None
    finally:
        session_options.log_severity_level = severity


def _cant_be_done() -> tuple[type[Exception], ...]:
    return (OSError, SealcarError, *abi.failures())


def _lend(session_options: SessionOptions, values: Mapping[str, Any]) -> None:
    _lent[session_options] = values
    try:
        for name, value in values.items():
            session_options.add_initializer(name, value)
    except abi.failures() as error:
        raise _used() from error


def _used() -> WrongStateError:
    return WrongStateError(
        "these session options have been used for a model with external initializers already; "
        "make new ones for each such model"
    )


def _set(session_options: SessionOptions, key: str, value: str) -> None:
    # the runtime warns of an entry that is there already
    if configuration.entry(session_options, key) != value:
        session_options.add_session_config_entry(key, value)


def _place(folder: Path, files: Files) -> None:
    for name in files:
        path = folder / posixpath.normpath(name)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.touch()
