"""Only typed errors leave the service, each with its place filled in."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING

from sealcar import names
from sealcar.errors import SealcarError, StorageError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from sealcar_server.service.values import ScopeKey
    from sealcar_server.store.generation import Generation


@contextmanager
def during(phase: str, **place: str | int) -> Iterator[None]:
    """Name phase and place in every error that passes.

    Raises:
        SealcarError: whatever was raised inside; an `OSError` as StorageError.
    """
    try:
        yield
    except SealcarError as error:
        error.at(phase=phase, **_cut(place))
        raise
    except OSError as error:
        message = f"the operating system says: {error.strerror}"
        raise StorageError(message).at(phase=phase, **_cut(place)) from error


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
