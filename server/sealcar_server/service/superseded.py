"""Removes generations that differ from their successor in nothing but the wrapped key.

Otherwise each rotation would leave one more of every package. Two generations stay in any case, and
those that are pinned or in use.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Final

from sealcar.errors import DamagedError, NotFoundError
from sealcar_server.service.finding import find

if TYPE_CHECKING:
    from sealcar_server.sealing.values import SealRecord
    from sealcar_server.service.keeping import Keeping
    from sealcar_server.service.remembering import Remembered
    from sealcar_server.store.interface import Store

_KEPT: Final = 2


def remove_superseded(
    store: Store, remembered: Remembered, keeping: Keeping, place: tuple[str, str]
) -> int:
    """Remove them from one version of a package and return how many there were.

    Args:
        store: where they lie.
        remembered: forgets them.
        keeping: tells what stays all the same.
        place: name and version.

    Raises:
        StorageError: one can't be removed.
    """
    name, version = place
    numbers = store.numbers(name, version)
    kept = _content(store, name, version, numbers[_KEPT - 1]) if len(numbers) > _KEPT else None
    removed = 0
    for number in numbers[_KEPT:]:
        if kept is None or _content(store, name, version, number) != kept:
            break
        if keeping.includes(name, version, number):
            continue
        store.remove(name, version, number)
        remembered.forget((name, version, number))
        removed += 1
    return removed


def _content(store: Store, name: str, version: str, number: int) -> SealRecord | None:
    """Return a record without what a rewrap changes; None if it can't be read."""
    try:
        found = find(store.generation(name, version, number)).record
    except (DamagedError, NotFoundError):
        return None
    return replace(found, generation=1, previous=b"", kek_alias="", kek_version="", wrapped=b"")
