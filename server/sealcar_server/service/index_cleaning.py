"""Removes entries of the index of shared assets that lead nowhere.

An entry is only a hint that whoever follows it checks, so one that can't be read may go as well as
one whose package is gone: equal assets are stored once more then. So no key is asked for.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from sealcar.errors import DamagedError, NotFoundError
from sealcar_server.service.asset_index import read_entry
from sealcar_server.service.finding import find

if TYPE_CHECKING:
    from collections.abc import Iterator

    from sealcar_server.store.interface import Store
    from sealcar_server.store.usage import FileUse


def clean_index(store: Store, *, only_look: bool) -> Iterator[FileUse]:
    """Remove them, or only look for them; yield the file of each when it is gone.

    Raises:
        WrongStateError, StorageError: they can't be removed.
    """
    # of each package the manifest is read once, however many entries lead to it
    there: dict[tuple[str, str], frozenset[str]] = {}
    for label in store.asset_entries():
        try:
            if _leads_somewhere(store, label, there):
                continue
            file = store.use_of_asset_entry(label)
        except NotFoundError:
            # another prune was faster
            continue
        if not only_look:
            store.remove_asset_entry(label)
        yield file


def _leads_somewhere(
    store: Store, label: str, there: dict[tuple[str, str], frozenset[str]]
) -> bool:
    try:
        entry = read_entry(store.read_asset_entry(label) or b"", label)
    except DamagedError:
        return False
    place = (entry.name, entry.version)
    if place not in there:
        there[place] = _assets(store, *place)
    return entry.uri in there[place]


def _assets(store: Store, name: str, version: str) -> frozenset[str]:
    # an import takes an asset over from the newest generation, so that one has to have it
    try:
        number = store.newest(name, version)
        found = find(store.generation(name, version, number))
        return frozenset(asset.uri for asset in found.record.assets)
    except (DamagedError, NotFoundError):
        return frozenset()
