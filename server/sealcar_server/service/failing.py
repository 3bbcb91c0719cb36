"""Only typed errors leave the service, each with its place filled in."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING

from sealcar.errors import SealcarError, StorageError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from sealcar_server.service.values import ScopeKey


@contextmanager
def during(phase: str, **place: str | int) -> Iterator[None]:
    """Name phase and place in every error that passes.

    Raises:
        SealcarError: whatever was raised inside; an `OSError` as StorageError.
    """
    try:
        yield
    except SealcarError as error:
        error.at(phase=phase, **place)
        raise
    except OSError as error:
        message = f"the operating system says: {error.strerror}"
        raise StorageError(message).at(phase=phase, **place) from error


def place_of(scope: ScopeKey) -> dict[str, str | int]:
    """Return a scope as the fields of an error's place."""
    return {
        "package": scope.package,
        "version": scope.version,
        "component": scope.component,
        "variant": scope.variant,
        "generation": scope.generation,
    }
