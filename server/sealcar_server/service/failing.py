"""Only typed errors leave the service, each with its place filled in."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sealcar import names
from sealcar.errors import SealcarError, StorageError

if TYPE_CHECKING:
    from sealcar_server.service.values import ScopeKey
    from sealcar_server.store.generation import Generation


def during(phase: str, **place: str | int) -> _During:
    """Name phase and place in every error that passes.

    Raises:
        SealcarError: whatever was raised inside; an `OSError` as StorageError.
    """
    return _During(phase, place)


class _During:
    # every read passes several of these: a generator would take three times as long
    __slots__ = ("_phase", "_place")

    def __init__(self, phase: str, place: dict[str, str | int]) -> None:
        self._phase, self._place = phase, place

    def __enter__(self) -> None:
        pass

    def __exit__(self, kind: object, error: object, trace: object) -> None:
        if isinstance(error, SealcarError):
            error.at(phase=self._phase, **_cut(self._place))
        elif isinstance(error, OSError):
            message = f"the operating system says: {error.strerror}"
            failure = StorageError(message).at(phase=self._phase, **_cut(self._place))
            raise failure from error


def _cut(place: dict[str, str | int]) -> dict[str, str | int]:
    """Cut what is too long for a name: an error has to fit into a packet and a line of the log."""
    return {
        what: f"{value[:60]}…" if isinstance(value, str) and _is_too_long(value) else value
        for what, value in place.items()
    }


def _is_too_long(name: str) -> bool:
    return len(name.encode(errors="replace")) > names.MAX_NAME


def place_of(scope: ScopeKey) -> dict[str, str | int]:
    """Return a scope as the fields of an error's place."""
    return {
        "package": scope.package,
        "version": scope.version,
        "component": scope.component,
        "variant": scope.variant,
        "generation": scope.generation,
    }


def generation_place(place: Generation) -> dict[str, str | int]:
    """Return a generation as the fields of an error's place."""
    return {"package": place.name, "version": place.version, "generation": place.number}
