"""What ONNX Runtime calls: the functions' types, and how a failure in one becomes a status.

A function here returns or raises. What it raises, KeyboardInterrupt included, ends the session or
the compilation with an ONNX Runtime error whose text is `status_text` of it.

**Lifetime.** A provider may keep a callback as long as its session. A `Registration` is kept by
the `SessionOptions` it was made for, and an `InferenceSession` keeps its options; so nothing needs
to be held by hand. A call that still comes after the registration ended fails, it is never served.
"""

from __future__ import annotations

import itertools
import os
import threading
import weakref
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final, Protocol, TypeAlias

from sealcar.errors import RuntimeSupportError, SealcarError
from sealcar.names import shown

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from sealcar.ort.runtime import SessionOptions

# what numpy can look at: bytes, bytearray, memoryview, mmap (collections.abc.Buffer is 3.12)
Buffer: TypeAlias = Any

STATUS_BYTES: Final = 480


class ReadFunction(Protocol):
    """Brings one blob: asks for memory of its size once, and fills all of it."""

    def __call__(self, name: str, allocate: Callable[[int], int], /) -> None:
        """Fill `allocate(size)`, an address in the provider's own memory, with the blob `name`."""


class WriteFunction(Protocol):
    """Takes one blob, which is the provider's and valid during the call only."""

    def __call__(self, name: str, address: int, size: int, /) -> None:
        """Store the blob `name`, `size` bytes at `address`."""


class ModelFunction(Protocol):
    """Takes the compiled model, in pieces and in order."""

    def __call__(self, address: int, size: int, /) -> None:
        """Append the next `size` bytes, at `address`, which are valid during the call only."""


@dataclass(frozen=True)
class Location:
    """Where an initializer of the compiled model lies: file name, first byte and length."""

    path: str
    offset: int
    size: int


class LocationFunction(Protocol):
    """Says where an initializer that is left after compiling goes, and stores it there."""

    def __call__(self, name: str, address: int, size: int, /) -> Location | None:
        """Return the place of `size` bytes at `address`, or None to leave them in the model."""


@dataclass(frozen=True)
class Compilation:
    """What is compiled, and who takes the results.

    Attributes:
        model: the source model, serialised.
        sink: takes the compiled model.
        write: takes the blobs; None only with `embed`.
        location: takes the initializers that are left; None: they stay in the model.
        sources: the source model's external files, by their name in the model.
        embed: put the blobs into the compiled model. No provider calls back then.
        stem: of the blobs' names: letters, digits, "_" and "-".
        optimization: how far the graph is rewritten before the provider sees it: "off", "basic",
            "extended" or "all".
    """

    model: Buffer = field(repr=False)
    sink: ModelFunction
    write: WriteFunction | None = None
    location: LocationFunction | None = None
    sources: Mapping[str, Buffer] = field(default_factory=dict, repr=False)
    embed: bool = False
    stem: str = "model"
    optimization: str = "off"


class Registration:
    """Functions the runtime may call, from any thread, until `close` or the end of this object.

    Attributes:
        failure: the first exception that one of them raised.
        written: whether the runtime ever handed over a blob.
        limit: the largest blob that a provider's allocator is asked for; at most this machine's
            memory.
    """

    def __init__(
        self,
        *,
        read: ReadFunction | None = None,
        write: WriteFunction | None = None,
        model: ModelFunction | None = None,
        location: LocationFunction | None = None,
        limit: int | None = None,
    ) -> None:
        self.read = read
        self.write = write
        self.model = model
        self.location = location
        self.limit = machine_memory() if limit is None else limit
        self.failure: BaseException | None = None
        self.written = False
        self.state = next(_states)
        _live[self.state] = self

    @property
    def live(self) -> bool:
        """Whether it may be called."""
        return self.state in _live

    def close(self) -> None:
        """End it: a call from now on fails."""
        _live.pop(self.state, None)

    def failed(self, error: BaseException) -> None:
        """Remember the first failure."""
        if self.failure is None:
            self.failure = error


# 0 is never a registration; numbers aren't used twice
_states: Final = itertools.count(1)
_live: Final[weakref.WeakValueDictionary[int, Registration]] = weakref.WeakValueDictionary()
_kept: Final[weakref.WeakKeyDictionary[Any, list[object]]] = weakref.WeakKeyDictionary()
_lock: Final = threading.Lock()


def registered(state: int | None) -> Registration:
    """Return the registration that the runtime's state names.

    Raises:
        RuntimeSupportError: it ended.
    """
    found = _live.get(state or 0)
    if found is None:
        raise RuntimeSupportError("the callback's registration has ended")
    return found


def keep(options: SessionOptions, owner: object) -> None:
    """Let what the runtime has addresses of live as long as options.

    Registrations add up: a session made with an earlier one keeps that.
    """
    with _lock:
        _kept.setdefault(options, []).append(owner)


def machine_memory() -> int:
    """Return this machine's memory in bytes: no blob can be larger."""
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")


def status_text(error: BaseException, what: str) -> str:
    """Return the text of a failed callback: at most 480 bytes of UTF-8, without a traceback.

    Our own errors hold no secret and are told in full; of others only the class is, since the
    runtime logs the text and the message could hold anything.
    """
    if isinstance(error, SealcarError):
        text = f"{type(error).__name__}: {error}"
    else:
        text = f"{type(error).__name__} in the callback for {what}"
    clean = "".join(c if c.isprintable() else "?" for c in text)
    return clean.encode(errors="replace")[:STATUS_BYTES].decode(errors="ignore")


def blob(name: str) -> str:
    """Name a blob in a text."""
    return f"blob {shown(name)}"
