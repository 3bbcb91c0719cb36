"""A model in ONNX Runtime's own format that a session uses where it lies.

The runtime's bindings copy a model that they get as bytes, and then it is copied once more. Of one
that they get by its path the runtime maps the file, if it is told to, and can go on using it. So
the model lies in memory that has a path, and the runtime is given a link to it, whose name ends as
names of such models do; nothing else is in the link's folder.
"""

from __future__ import annotations

import os
import tempfile
from contextlib import suppress
from typing import TYPE_CHECKING, Final

from sealcar.errors import SealcarError, UnavailableError
from sealcar.ort import abi, borrowing, configuration, runtime
from sealcar.ort.borrowing import UNPACKED

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from sealcar.ort.runtime import Session, SessionOptions
    from sealcar.ort.sessions import Provider
    from sealcar.transfer.named import NamedMemory

SUFFIX: Final = ".ort"
# a smaller one is copied sooner than all this is done
LEAST: Final = 4 << 20
_MAPPED: Final = "session.use_memory_mapped_ort_model"
_IN_PLACE: Final = "session.use_ort_model_bytes_for_initializers"
_FORMAT: Final = "session.load_model_format"
# older ones know nothing of a map
_FIRST: Final = (1, 30)


def wanted(
    session_options: SessionOptions,
    providers: Sequence[Provider] | None,
    entries: Mapping[str, str],
) -> bool:
    """Tell whether the runtime can map a model, and the caller's options don't forbid it.

    It is done for the CPU provider alone: others could look for more beside a path.

    Raises:
        RuntimeSupportError: no session can be made with these options.
    """
    return (
        runtime.version() >= _FIRST
        and (entries.get(_MAPPED) or "1") == "1"
        and entries.get(_FORMAT, "") in ("", "ORT")
        and borrowing.possible(session_options, providers, entries, b"", shared=False)
    )


def prefer(session_options: SessionOptions, *, shared: bool = False) -> list[str]:
    """Have a model that is given by its path mapped, and its weights used where they lie.

    What is set here stays set, since the runtime warns of whoever sets an entry twice. It takes no
    notice of it for models of another format, but for one entry: those aren't packed then, either.

    Args:
        session_options: an entry that is there stays as it is.
        shared: the memory is other processes' too, so nothing of it is packed; where it has to be,
            weights are copied.

    Returns:
        The entries that were set, to "1".
    """
    keys = [_MAPPED]
    if not shared:
        keys += [_IN_PLACE]
    elif configuration.entry(session_options, UNPACKED) != "0":
        keys += [_IN_PLACE, UNPACKED]
    return [key for key in keys if configuration.prefer(session_options, key)]


def session(
    session_options: SessionOptions,
    model: NamedMemory,
    make: Callable[[str | bytes], Session],
    *,
    shared: bool,
) -> Session:
    """Return a session that maps a model, or else one that was made of its bytes.

    Args:
        session_options: that `make` uses; `prefer` says what is set.
        model: in memory; it may be closed afterwards, if it isn't then.
        make: makes a session, of a path or of bytes.
        shared: the memory is other processes' too, so nothing of it is packed.
    """
    added = prefer(session_options, shared=shared)
    made = _mapping(model, make)
    if made is None:
        for key in added:
            session_options.add_session_config_entry(key, "0")
        data = model.read()
        model.close()  # before more copies are made
        return make(data)
    with suppress(OSError):
        model.keep_out_of_dumps()
    return made


def _mapping(model: NamedMemory, make: Callable[[str | bytes], Session]) -> Session | None:
    try:
        with tempfile.TemporaryDirectory(prefix="sealcar-", ignore_cleanup_errors=True) as folder:
            return _by_link(folder, model, make)
    except _cant_be_done():
        # the model itself may be what is wrong, which shows again; what this error holds on to,
        # the runtime's map of the model too, goes before there are more copies
        return None


def _by_link(folder: str, model: NamedMemory, make: Callable[[str | bytes], Session]) -> Session:
    # by its descriptor: in a temporary directory that isn't sticky, others could put another one
    # in the folder's place, with a model of theirs
    descriptor = os.open(folder, os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
    try:
        found = os.fstat(descriptor)
        if (found.st_uid, found.st_mode & 0o777) != (os.geteuid(), 0o700):
            raise UnavailableError("the folder of a link isn't this process's own")
        os.symlink(model.path, f"model{SUFFIX}", dir_fd=descriptor)
        return make(f"/proc/self/fd/{descriptor}/model{SUFFIX}")
    finally:
        os.close(descriptor)


def _cant_be_done() -> tuple[type[Exception], ...]:
    return (OSError, SealcarError, *abi.failures())
