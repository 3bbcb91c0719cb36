"""Where a variant's payloads come from: a sealed one's from the daemon, a plain one's from files.

Loading asks a `Source` and knows no more; so what runs over a plain package during development is
what runs over a sealed one.
"""

from __future__ import annotations

import os
import posixpath
from functools import cached_property
from typing import TYPE_CHECKING, Final, Protocol, Self, TypeVar

from sealcar.errors import ConfigurationError, InvalidPackageError, SealcarError
from sealcar.ort import runtime
from sealcar.ort.ahead import ViewsAhead

if TYPE_CHECKING:
    from collections.abc import Mapping
    from types import TracebackType

    from sealcar.transfer.any_scope import AnyScope
    from sealcar.transfer.named import NamedMemory
    from sealcar.transfer.payloads import PayloadRef

MODEL: Final = "model"
INITIALIZERS: Final = "initializers"
BLOB: Final = "blob"

_SETTING: Final = "SEALCAR_WEIGHTS"
_EARLY: Final = "early"
_Error = TypeVar("_Error", bound=SealcarError)
# who would look on the disk for what isn't in the variant
_LOOKS: Final = {BLOB: "the execution provider", INITIALIZERS: "ONNX Runtime"}


class Place(Protocol):
    """What a payload's name is relative to."""

    def placed(self, error: _Error, phase: str, payload: str = "") -> _Error:
        """Return the error with what it lacks of its place filled in."""


class Reader(Protocol):
    """One payload, to be read into its final destination.

    Attributes:
        size: of the payload.
    """

    size: int

    def read_into(self, target: int, size: int, /) -> None:
        """Fill `size` bytes at an address with the whole payload."""

    def __enter__(self) -> Self:
        """Return the reader."""

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
        /,
    ) -> None:
        """Close it."""


class Readable(Protocol):
    """Payloads that can be read by their names."""

    @property
    def name(self) -> Place:
        """What the names are relative to."""

    def reader(self, name: str, /) -> Reader:
        """Return a reader, which knows the size before the destination is allocated."""

    def reader_ahead(self, name: str, /) -> Reader:
        """Return one that isn't used at once: it takes nothing that others could wait for."""


class Source(Readable, Protocol):
    """What loading needs of a variant."""

    @property
    def ep(self) -> str:
        """Execution provider that the variant is for; empty: any."""

    @property
    def compatibility(self) -> str:
        """What the provider left to recognise its machine by; empty: nothing."""

    @property
    def executor_info(self) -> Mapping[str, object]:
        """Namespace to object. It comes with the package, so it is untrusted."""

    @property
    def payloads(self) -> tuple[PayloadRef, ...]:
        """What is known of the payloads before the model was read."""

    def resolve(self, reference: str, kind: str, /) -> str:
        """Return the payload that a reference of `executor_info` leads to."""

    def resolve_folder(self, reference: str, /) -> str:
        """Return the folder that such a reference leads to: empty, or ending in "/"."""

    def beside(self, folder: str, name: str, kind: str, /) -> str:
        """Return the payload that a model names, relative to a folder that it can't leave."""

    def read(self, name: str, /) -> bytes:
        """Return a payload as bytes."""

    def view(self, name: str, /) -> memoryview:
        """Return a payload in read-only memory, which lives as long as the view."""


class SealedSource:
    """A variant in the daemon's store: names are looked up among its payloads, and nowhere else.

    Args:
        scope: the variant.
        shared: `view` gives memory that all processes share which ask for it like this.
    """

    def __init__(self, scope: AnyScope, *, shared: bool = False) -> None:
        self._scope, self._shared = scope, shared
        self._ahead = ViewsAhead(self._map, ())
        self.reader, self.reader_ahead = scope.reader, scope.reader_ahead
        self.read = scope.read
        self.resolve_folder = scope.resolve_folder

    @property
    def name(self) -> Place:
        """What the names are relative to."""
        return self._scope.name

    @property
    def ep(self) -> str:
        """Execution provider that the variant is for; empty: any."""
        return self._scope.ep

    @property
    def compatibility(self) -> str:
        """What the provider left to recognise its machine by; empty: nothing."""
        return self._scope.compatibility

    @property
    def executor_info(self) -> Mapping[str, object]:
        """Namespace to object, untrusted."""
        return self._scope.executor_info

    @property
    def payloads(self) -> tuple[PayloadRef, ...]:
        """All payloads."""
        return self._scope.payloads

    def resolve(self, reference: str, kind: str, /) -> str:
        """Return the payload that a reference of `executor_info` leads to.

        Raises:
            InvalidPackageError: it is none of that kind.
            RequestError: it leads nowhere, or out of the variant.
        """
        found = self._scope.resolve(reference)
        self._check(found, kind)
        return found

    def beside(self, folder: str, name: str, kind: str, /) -> str:
        """Return the payload that a model names.

        Raises:
            InvalidPackageError: there is none.
        """
        inner = posixpath.normpath(name)
        if inner.startswith(("/", "../")) or inner in (".", ".."):
            raise InvalidPackageError(f"it leads out of the model's folder{_danger(kind)}")
        self._check(folder + inner, kind)
        return folder + inner

    def view(self, name: str, /) -> memoryview:
        """Return a payload in read-only memory, which lives as long as the view.

        Raises:
            SealcarError: what went wrong, with scope and name.
        """
        return self._ahead.take(name)

    def named(self, name: str, /) -> NamedMemory | None:
        """Return a payload in memory that has a path; None where that can't be had.

        Raises:
            SealcarError: what went wrong, with scope and name.
        """
        return self._scope.named(name, shared=self._shared)

    def size(self, name: str, /) -> int:
        """Return a payload's bytes; raises as `named`."""
        return self._scope.payload(name).size

    def expect(self) -> None:
        """Have the weights on their way before they are asked for, if it is clear whose they are.

        `settle` must follow, and `arrive` before anything but a session reads them.

        Raises:
            ConfigurationError: $SEALCAR_WEIGHTS is neither "early" nor "whole".
        """
        kinds = [payload.kind for payload in self.payloads]
        if kinds.count(MODEL) == 1:
            weights = (one.name for one in self.payloads if one.kind == INITIALIZERS)
            ahead = (self._scope.arriving,) if wants_early() and not self._shared else ()
            self._ahead = ViewsAhead(self._map, weights, *ahead)

    def settle(self) -> None:
        """Fetch nothing more that nobody asked for."""
        self._ahead.give_up()

    def arrive(self) -> None:
        """Return when the weights that were asked for are all there.

        Raises:
            SealcarError: what went wrong, with scope and name.
        """
        self._ahead.arrive()

    def _map(self, name: str) -> memoryview:
        return self._scope.map(name, shared=self._shared).view

    @cached_property
    def _kinds(self) -> Mapping[str, str]:
        return {payload.name: payload.kind for payload in self._scope.payloads}

    def _check(self, name: str, kind: str) -> None:
        """Check that a payload is there, and of a kind: weights may be any but a blob."""
        found = self._kinds.get(name, "")
        if found != kind and (kind != INITIALIZERS or found in ("", BLOB)):
            raise InvalidPackageError(f"it isn't in the variant as {kind}{_danger(kind)}")


def wants_early() -> bool:
    """Tell whether a session may be made while its weights still come.

    Raises:
        ConfigurationError: $SEALCAR_WEIGHTS is neither "early", which is the default, nor "whole".
    """
    wanted = os.environ.get(_SETTING) or _EARLY
    if wanted not in (_EARLY, "whole"):
        raise ConfigurationError(f"{_SETTING} is early or whole, not {wanted[:40]!a}")
    # before, the runtime holds the interpreter lock as long as it makes a session
    return wanted == _EARLY and runtime.version() >= runtime.FIRST_WITHOUT_LOCK


def _danger(kind: str) -> str:
    return f"; {_LOOKS[kind]} would look for it on the disk" if kind in _LOOKS else ""
