"""What hangs on which version of which key-encryption key, as the store's files say it.

No key is asked for, so nothing of it is authenticated.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from sealcar.errors import DamagedError, NotFoundError, StorageError
from sealcar_server.service.finding import find

if TYPE_CHECKING:
    from collections.abc import Iterator

    from sealcar_server.store.interface import Store


@dataclass(frozen=True)
class Hanging:
    """One wrapped key.

    Attributes:
        name, version: of the package; empty for the store's own key.
        generation: 0 for the store's own key.
        newest: true for the generation that clients get, and for the store's own key.
        kek_alias, kek_version: what it is wrapped by; empty if that can't be read.
        problem: why not; else empty.
    """

    name: str
    version: str
    generation: int
    newest: bool
    kek_alias: str = ""
    kek_version: str = ""
    problem: str = ""


def hanging(store: Store) -> Iterator[Hanging]:
    """Yield the store's own key, then every generation by name, version and number.

    Raises:
        StorageError: the store can't be listed.
    """
    identity = store.identity
    wrapping = {"kek_alias": identity.kek_alias, "kek_version": identity.kek_version}
    yield Hanging("", "", 0, newest=True, **wrapping)
    for name in store.names():
        for version in store.versions(name):
            yield from _of_version(store, name, version)


def _of_version(store: Store, name: str, version: str) -> Iterator[Hanging]:
    try:
        numbers = store.numbers(name, version)
        newest = store.newest(name, version)
    except (DamagedError, StorageError) as error:
        yield Hanging(name, version, 0, newest=False, problem=error.message)
        return
    for number in reversed(numbers):
        try:
            alias, kek_version = _wrapping(store, name, version, number)
        except NotFoundError:
            continue  # incomplete, or removed meanwhile
        except (DamagedError, StorageError) as error:
            yield Hanging(name, version, number, number == newest, problem=error.message)
            continue
        yield Hanging(name, version, number, number == newest, alias, kek_version)


def _wrapping(store: Store, name: str, version: str, number: int) -> tuple[str, str]:
    found = find(store.generation(name, version, number)).record
    return found.kek_alias, found.kek_version
